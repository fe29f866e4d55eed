/** Servers of tests listen on the loopback, on any free port. */
import type { Server as HttpServer } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

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

/** A port on which nothing listens. */
export async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listenOnLoopback(server)
  await new Promise((resolve) => server.close(resolve))
  return port
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
