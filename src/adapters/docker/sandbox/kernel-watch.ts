import { createReadStream } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import type { ContainerInspectInfo } from 'dockerode'
import { errnoOf } from '../../../platform/files.ts'

/**
 * Bounds what containers take of the kernel's stock that no control group counts. The kernel charges the queues of netlink sockets to
 * nobody, and those of TCP and UDP to nobody under version 1; TCP and UDP of a host also share one budget, and connections of the host
 * fail when it is used up. All containers share the pseudo-terminals. The watch ends the first process of a container over its bound, as
 * the kernel's OOM killer would: the engine sees an exit that nobody ordered, so that the loss is the agent's own for every worker. It
 * must be root on the engine's machine; elsewhere it does nothing.
 */
export interface KernelWatch {
  /** Starts to watch a container that runs. A second call changes nothing. */
  add(name: string, facts: ContainerInspectInfo): Promise<void>
  /** Whether adding it would change nothing. */
  knows(name: string): boolean
  remove(name: string): void
  dispose(): void
}

export interface KernelWatchOptions {
  log(message: string, facts: Record<string, string | number>): void
  /** @default 1000 */
  everyMs?: number
}

const MIB = 1024 ** 2
/** Tests of servers keep a few MiB in flight. A container with less memory may keep no more than that. */
const MOST_BYTES = 256 * MIB
/** Listing them takes the kernel time that grows with the square of their number. A process may have 4,096 descriptors. */
const MOST_SOCKETS = 16_384
/** The kernel has 3,072 for all containers together, unless the host sets another number. */
const MOST_TERMINALS = 512

interface Watched {
  name: string
  /** Names the container in the control groups of its processes. */
  id: string
  /** On this host. */
  first: number
  most: number
}

export function createKernelWatch({ log, everyMs = 1000 }: KernelWatchOptions): KernelWatch {
  const watched = new Map<string, Watched>()
  /** Containers of an engine on another machine. */
  const elsewhere = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  let isDisposed = false

  const schedule = (): void => {
    if (isDisposed || timer !== undefined || watched.size === 0) return
    timer = setTimeout(() => void look(), everyMs)
    timer.unref()
  }

  const look = async (): Promise<void> => {
    for (const one of watched.values()) {
      if (isDisposed) break
      try {
        // It ended, or its first process is another one since a restart: the next turn adds it again.
        if (!(await isFirstOf(one))) forget(one)
        else {
          const over = await overOf(one)
          if (over !== null) await end(one, over)
        }
      } catch (error) {
        log('kernel watch: not counted', {
          sandbox: one.name,
          why: error instanceof Error ? error.message : String(error),
        })
      }
    }
    timer = undefined
    schedule()
  }

  const forget = (one: Watched): void => {
    if (watched.get(one.name) === one) watched.delete(one.name)
  }

  const end = async (one: Watched, over: string): Promise<void> => {
    forget(one)
    // Again, because counting takes a while and the kernel gives numbers of processes to others.
    if (!(await isFirstOf(one))) return
    log('kernel watch: ended a container that took too much of the kernel', { sandbox: one.name, over })
    process.kill(one.first, 'SIGKILL')
  }

  const knows = (name: string): boolean =>
    watched.has(name) || elsewhere.has(name) || isDisposed || process.getuid?.() !== 0

  return {
    knows,
    async add(name, { Id: id, State: state, HostConfig: host }) {
      if (knows(name)) return
      const most = Math.min(host.Memory || MOST_BYTES, MOST_BYTES)
      const one = { name, id, first: state.Pid, most }
      if (!state.Running) return
      if (!(await isFirstOf(one))) {
        elsewhere.add(name)
        return
      }
      watched.set(name, one)
      schedule()
    },
    remove(name) {
      elsewhere.delete(name)
      watched.delete(name)
    },
    dispose() {
      isDisposed = true
      clearTimeout(timer)
    },
  }
}

/** Returns whether a process of this host still is the container's first. False too where the engine is on another machine. */
async function isFirstOf({ first, id }: Watched): Promise<boolean> {
  try {
    return first > 1 && (await readFile(`/proc/${first}/cgroup`, 'utf8')).includes(id)
  } catch (error) {
    if (isGone(error)) return false
    throw error
  }
}

/** Returns what a container has too much of; null if nothing. */
async function overOf({ first, most }: Watched): Promise<string | null> {
  const folder = `/proc/${first}/net`
  const { sockets, pages } = parseSockets(await readFile(`${folder}/sockstat`, 'utf8'))
  if (sockets > MOST_SOCKETS) return `${sockets} sockets`
  let bytes = 0
  // The host's TCP and UDP together: while that is little, no container has much of it, and the long tables need not be read.
  for (const { table, queues } of pages * 4096 > most ? [NETLINK, ...INTERNET] : [NETLINK]) {
    for await (const line of linesOf(`${folder}/${table}`)) {
      bytes += queues(line.trim().split(/\s+/))
      if (bytes > most) return `${bytes} bytes in sockets`
    }
  }
  if (Number(await readFile('/proc/sys/kernel/pty/nr', 'utf8')) <= MOST_TERMINALS) return null
  const terminals = await readdir(`/proc/${first}/root/dev/pts`)
  return terminals.length > MOST_TERMINALS ? `${terminals.length} terminals` : null
}

interface Table {
  table: string
  /** Bytes in the queues of the socket of a line. */
  queues(fields: string[]): number
}

/** `sk Eth Pid Groups Rmem Wmem …` */
const NETLINK: Table = {
  table: 'netlink',
  queues: ([, , , , received, sent]) => (Number(received) || 0) + (Number(sent) || 0),
}
/** `sl local_address rem_address st tx_queue:rx_queue …`, in hexadecimal. */
const INTERNET = ['tcp', 'tcp6', 'udp', 'udp6'].map(
  (table): Table => ({
    table,
    queues: (fields) => {
      const [, sent = '0', received = '0'] = /^([0-9A-F]{8}):([0-9A-F]{8})$/.exec(fields[4] ?? '') ?? []
      return Number.parseInt(sent, 16) + Number.parseInt(received, 16)
    },
  }),
)

/** `sockets: used 12` counts those of the network namespace; `mem` counts pages of the whole host. */
function parseSockets(text: string): { sockets: number; pages: number } {
  const sockets = Number(/^sockets: used (\d+)/m.exec(text)?.[1] ?? 0)
  const pages = [...text.matchAll(/^(?:TCP|UDP): .*\bmem (\d+)/gm)].reduce((sum, [, mem]) => sum + Number(mem), 0)
  return { sockets, pages }
}

async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = ''
  try {
    for await (const piece of createReadStream(path, 'latin1')) {
      const lines = `${rest}${piece}`.split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } catch (error) {
    // A kernel without IPv6 has no tables of it.
    if (!isGone(error)) throw error
  }
}

function isGone(error: unknown): boolean {
  return ['ENOENT', 'ESRCH', 'EINVAL'].includes(errnoOf(error) ?? '')
}
