/** Servers of tests listen on loopback, on any free port. */
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server as HttpServer } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** Ports below it belong to well-known services. */
const FIRST_PORT = 12_000

/** @returns the port */
export async function listenOnLoopback(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** Ends the connections too, because clients' open connections keep the server alive. */
export function closeServer(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

/**
 * A port on which nothing listens. It is below the range from which the kernel chooses ports for connections and servers, so it is
 * still free when a test stops its server and starts it again.
 */
export async function freePort(): Promise<number> {
  const range = await readFile('/proc/sys/net/ipv4/ip_local_port_range', 'utf8')
  const end = Number.parseInt(range, 10)
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = randomInt(FIRST_PORT, end)
    if (await isFree(port)) return port
  }
  throw new Error(`Of a hundred ports between ${FIRST_PORT} and ${end} none is free.`)
}

function isFree(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

export interface SilentServer {
  port: number
  /** Ends the connections too, because an open one keeps the test's process alive. */
  close(): void
}

/** Accepts connections and never sends anything, like a server that hangs. */
export async function startSilentServer(): Promise<SilentServer> {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('close', () => open.delete(socket))
  })
  const port = await listenOnLoopback(server)
  return {
    port,
    close() {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}
