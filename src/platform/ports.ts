import { connect, createServer } from 'node:net'

export interface ChoosePortInput {
  /** Tried in this order: what the stack had before, then the usual one. */
  preferred: number[]
  /** Chosen a moment ago for another service of the same stack, which has not opened it yet. */
  taken: Set<number>
}

/** The first preferred port that is free, else any free one. */
export async function choosePort({ preferred, taken }: ChoosePortInput): Promise<number> {
  for (const port of preferred) {
    if (taken.has(port) || !(await isFree(port))) continue
    taken.add(port)
    return port
  }
  for (;;) {
    const port = await anyFreePort()
    if (taken.has(port)) continue
    taken.add(port)
    return port
  }
}

/** @param host that a server would listen on */
export async function isFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  // A server on all addresses lets us bind loopback beside it, and then gets half of the clients: asked first.
  if (await accepts(host, port)) return false
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

export function accepts(host: string, port: number, timeoutMs = 1_000): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port })
    const settle = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(timeoutMs, () => settle(false))
    socket.once('connect', () => settle(true))
    socket.once('error', () => settle(false))
  })
}

function anyFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port: 0 }, () => {
      const address = server.address()
      const port = typeof address === 'object' && address !== null ? address.port : 0
      server.close(() => resolve(port))
    })
  })
}
