/** CPU time and memory of processes that may be killed and restarted meanwhile. */
import { readdirSync, readFileSync } from 'node:fs'

const TICKS_PER_S = 100
const PAGE_KIB = 4

interface Seen {
  cpuS: number
  rssMiB: number
}

export interface Metered {
  /** User and system time of all processes of this part since the first check, including children that ended. */
  cpuS: number
  /** Largest resident memory at one check. */
  peakMiB: number
  /** Growth of resident memory over the second half of the checks, MiB a minute; null with too few checks or if a process was
   *  replaced. */
  slope: number | null
}

interface Part {
  /** CPU time of processes that are gone, s, less what all had used at the first check. */
  ended: number
  /** CPU time by process at the last check, s. */
  last: Map<number, number>
  looks: { atS: number; rssMiB: number }[]
  replaced: boolean
}

/** Measures the processes of named parts; `pids` returns the current ones at each check. */
export function createProcessMeter(pids: () => Promise<Record<string, number[]>>) {
  const parts = new Map<string, Part>()
  const startedMs = performance.now()
  return {
    async look(): Promise<void> {
      const atS = (performance.now() - startedMs) / 1000
      for (const [name, now] of Object.entries(await pids())) {
        const seen = now.flatMap((pid) => {
          const one = readProcess(pid)
          return one === null ? [] : [[pid, one] as const]
        })
        // A server has played other sizes before this one.
        const before = seen.reduce((sum, [, { cpuS }]) => sum + cpuS, 0)
        const part: Part = parts.get(name) ?? { ended: -before, last: new Map(), looks: [], replaced: false }
        parts.set(name, part)
        for (const [pid, cpuS] of part.last) {
          if (seen.some(([other]) => other === pid)) continue
          part.ended += cpuS
          part.last.delete(pid)
          part.replaced = true
        }
        for (const [pid, { cpuS }] of seen) part.last.set(pid, cpuS)
        part.looks.push({ atS, rssMiB: seen.reduce((sum, [, { rssMiB }]) => sum + rssMiB, 0) })
      }
    },
    read(): Record<string, Metered> {
      return Object.fromEntries(
        [...parts].map(([name, { ended, last, looks, replaced }]) => [
          name,
          {
            cpuS: [...last.values()].reduce((sum, cpuS) => sum + cpuS, ended),
            peakMiB: Math.max(0, ...looks.map(({ rssMiB }) => rssMiB)),
            slope: replaced ? null : slopeOf(looks.slice(Math.floor(looks.length / 2))),
          },
        ]),
      )
    },
  }
}

/** A process and its descendants: PostgreSQL has one for each connection. */
export function familyOf(pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = statOf(Number(name))
    if (fields !== null) parents.set(Number(name), Number(fields[1]))
  }
  const family = [pid]
  for (const one of family) for (const [child, parent] of parents) if (parent === one) family.push(child)
  return family
}

function readProcess(pid: number): Seen | null {
  const fields = statOf(pid)
  if (fields === null) return null
  // Includes children that were waited for, because a backend of PostgreSQL ends with its connection.
  const cpuS = (Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14])) / TICKS_PER_S
  return { cpuS, rssMiB: (Number(fields[21]) * PAGE_KIB) / 1024 }
}

/** The fields after the name, which may contain spaces. */
function statOf(pid: number): string[] | null {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? null
  } catch {
    return null
  }
}

/** Least-squares slope. */
function slopeOf(looks: readonly { atS: number; rssMiB: number }[]): number | null {
  if (looks.length < 10) return null
  const meanS = looks.reduce((sum, { atS }) => sum + atS, 0) / looks.length
  const mean = looks.reduce((sum, { rssMiB }) => sum + rssMiB, 0) / looks.length
  const across = looks.reduce((sum, { atS, rssMiB }) => sum + (atS - meanS) * (rssMiB - mean), 0)
  return (across / looks.reduce((sum, { atS }) => sum + (atS - meanS) ** 2, 0)) * 60
}
