/** Servers of tests listen on the loopback, on any free port. */
import { createServer, type AddressInfo, type Server } from 'node:net'

/** @returns the port */
export async function listenOnLoopback(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

/** A port on which nothing listens. */
export async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listenOnLoopback(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}
