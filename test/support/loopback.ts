/** Servers of tests listen on the loopback, on any free port. */
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Server as HttpServer } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** Below it are ports of well-known services. */
const FIRST_PORT = 12_000

/** @returns the port */
export async function listenOnLoopback(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** Ends the connections too: clients keep them open, and so the server. */
export function closeServer(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

/**
 * A port on which nothing listens. It lies below those that the kernel gives to connections and to servers that ask for any port:
 * a test may stop its server, and finds the port still free when it starts the server again.
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
  /** Ends the connections too: an open one keeps the process of the test alive. */
  close(): void
}

/** Accepts connections and never says a word, as a server does that is stuck. */
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
