/**
 * Processes whose CPU time, memory and end the kernel reports through their own control group, so that a process of a few
 * milliseconds is counted too. Needs root, and writable control groups of version 1 or 2.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ProcessGroup {
  /** For the engine's `--cgroup-parent`, so that its containers are included. */
  containers: string
  /** The words that start a command in a part of the group. */
  enter(part: GroupPart, command: string, args: readonly string[]): { command: string; args: string[] }
  /** Moves a running process into a part; processes that it starts later are included. */
  take(part: GroupPart, pid: number): void
  /** User and system time of all processes that were ever in the group. */
  cpuSeconds(): number
  /** Watches the anonymous memory of all processes together, in bytes; no process outside of the group shares it. */
  watchMemory(): { peak(): number; stop(): void }
  /** Sends SIGKILL to all processes of a part until none is left. @returns how many there were */
  kill(part: GroupPart): Promise<number>
  close(): Promise<void>
}

export type GroupPart = 'driver' | 'engine'

/** Fine enough for the plateaus of a run; a check takes some milliseconds of this process, which are not counted. */
const LOOK_MS = 250

export function makeProcessGroup(name: string): ProcessGroup {
  const { root, own, cpuSecondsIn } = hierarchy()
  const relative = join(own, name)
  const folder = join(root, relative)
  for (const part of ['driver', 'engine', 'containers']) mkdirSync(join(folder, part), { recursive: true })
  const pids = (path: string): number[] =>
    read(join(path, 'cgroup.procs'))
      .split('\n')
      .filter((line) => line !== '')
      .map(Number)
  const all = (): string[] => [
    folder,
    ...readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name)),
  ]
  return {
    containers: join(relative, 'containers'),
    enter: (part, command, args) => ({
      command: '/bin/sh',
      args: ['-c', 'echo $$ >"$0" && exec "$@"', join(folder, part, 'cgroup.procs'), command, ...args],
    }),
    take: (part, pid) => writeFileSync(join(folder, part, 'cgroup.procs'), String(pid)),
    cpuSeconds: () => cpuSecondsIn(folder),
    watchMemory() {
      let peak = 0
      const look = (): void => {
        const bytes = all()
          .flatMap(pids)
          .reduce((sum, pid) => sum + anonymousBytes(pid), 0)
        peak = Math.max(peak, bytes)
      }
      const timer = setInterval(look, LOOK_MS)
      return { peak: () => peak, stop: () => clearInterval(timer) }
    },
    async kill(part) {
      const killed = new Set<number>()
      for (;;) {
        const living = pids(join(folder, part))
        if (living.length === 0) return killed.size
        for (const pid of living) {
          killed.add(pid)
          // The process may have ended meanwhile; an unreaped zombie is in no group.
          try {
            process.kill(pid, 'SIGKILL')
          } catch {}
        }
        await sleep(20)
      }
    },
    async close() {
      for (let tries = 0; tries < 50; tries += 1) {
        try {
          for (const path of all().toReversed()) rmdirSync(path)
          return
        } catch {
          await sleep(100)
        }
      }
    },
  }
}

/** Where groups are created, and how to read their CPU time. */
function hierarchy(): { root: string; own: string; cpuSecondsIn: (folder: string) => number } {
  const first = '/sys/fs/cgroup/cpuacct'
  if (existsSync(join(first, 'cpuacct.usage'))) {
    return {
      root: first,
      own: ownPath((controllers) => controllers.split(',').includes('cpuacct')),
      cpuSecondsIn: (folder) => Number(read(join(folder, 'cpuacct.usage'))) / 1e9,
    }
  }
  const second = '/sys/fs/cgroup'
  if (existsSync(join(second, 'cgroup.controllers'))) {
    return {
      root: second,
      // In version 2 only the root may have both processes and child groups.
      own: '/',
      cpuSecondsIn: (folder) => Number(/usage_usec (\d+)/.exec(read(join(folder, 'cpu.stat')))?.[1]) / 1e6,
    }
  }
  throw new Error('Expected control groups below /sys/fs/cgroup: the CPU time of short processes is read from them')
}

function ownPath(has: (controllers: string) => boolean): string {
  const lines = read('/proc/self/cgroup').split('\n')
  return lines.map((line) => line.split(':')).find(([, controllers]) => has(controllers ?? ''))?.[2] ?? '/'
}

function anonymousBytes(pid: number): number {
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024
}

/** Empty if the file is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
