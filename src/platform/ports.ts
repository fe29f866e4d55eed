import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { tryDirectoryLock } from './directory-lock.ts'
import { makeDirectory } from './files.ts'

export interface ChoosePortInput {
  /** Preferred ports in order: the stack's previous one, then the default. */
  preferred: number[]
  /** Chosen for another service of the same stack, which has not opened it yet. */
  taken: Set<number>
  /** Reservations of the whole machine. @default none: another process may choose the same port before it is opened */
  reservations?: PortReservations
}

/** The first preferred port that is free, else any free one. */
export async function choosePort({ preferred, taken, reservations }: ChoosePortInput): Promise<number> {
  const take = async (port: number): Promise<boolean> => {
    if (taken.has(port) || (await reservations?.take(port)) === false) return false
    taken.add(port)
    return true
  }
  for (const port of preferred) if (!taken.has(port) && (await isFree(port)) && (await take(port))) return port
  for (;;) {
    const port = await anyFreePort()
    if (await take(port)) return port
  }
}

/** Ports that processes of this machine have chosen but not opened yet. Those of a dead process are free. */
export interface PortReservations {
  /** @returns false where another process, or this one, has it */
  take(port: number): Promise<boolean>
  /** Called when the chosen ports are open or no longer needed. */
  release(): Promise<void>
}

/** @param folder shared by all processes that choose ports */
export function openPortReservations(folder: string): PortReservations {
  const releases: (() => Promise<void>)[] = []
  return {
    async take(port) {
      await makeDirectory(folder)
      const path = join(folder, String(port))
      // The first attempt takes the reservation of a dead process away.
      const release = (await tryDirectoryLock(path)) ?? (await tryDirectoryLock(path))
      if (release === null) return false
      releases.push(release)
      return true
    },
    async release() {
      for (const release of releases.splice(0)) await release()
    },
  }
}

/** @param host that a server would listen on */
export async function isFree(port: number, host = '127.0.0.1'): Promise<boolean> {
  // A server on all addresses lets us bind loopback too, and would then get some of the clients, so this address is checked first.
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
