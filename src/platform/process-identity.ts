import { readFile } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf } from './errno.ts'

/** One process, for ever: pids are used again, so the start time and the machine's boot belong to the name. */
export interface ProcessIdentity {
  host: string
  bootId: string | null
  pid: number
  /** Clock ticks since boot, as the kernel prints them. */
  pidStart: string | null
}

export type Liveness = 'alive' | 'dead' | 'unknown'

/** `unknown` = on another machine, which cannot be asked from here. */
export async function livenessOf(process: ProcessIdentity): Promise<Liveness> {
  if (process.host !== hostname()) return 'unknown'
  if (process.bootId !== bootId()) return 'dead'
  const start = await startTimeOf(process.pid)
  return start !== null && start === process.pidStart ? 'alive' : 'dead'
}

export function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return null
  }
}

/** Null when the process is gone or waits only to be reaped. */
export async function startTimeOf(pid: number): Promise<string | null> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The command name may hold spaces and brackets; fields are counted after the last closing one.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null)
  } catch {
    return null
  }
}

const POLL_MS = 50
/** A killed process that still exists after this long hangs in the kernel, and no signal can end it. */
const KILL_WAIT_MS = 10_000

/** TERM to the group, then KILL to what is left after `graceMs`. True when the leader is gone. */
export async function stopGroup(leader: ProcessIdentity, graceMs: number): Promise<boolean> {
  if ((await livenessOf(leader)) !== 'alive') return true
  signalGroup(leader.pid, 'SIGTERM')
  // One that was stopped (a debugger, kill -STOP) hears nothing until it goes on; then it saves its last step.
  signalGroup(leader.pid, 'SIGCONT')
  if (await waitUntilGone(leader, graceMs)) {
    // Children that outlived their leader.
    signalGroup(leader.pid, 'SIGKILL')
    return true
  }
  signalGroup(leader.pid, 'SIGKILL')
  return waitUntilGone(leader, KILL_WAIT_MS)
}

async function waitUntilGone(process: ProcessIdentity, withinMs: number): Promise<boolean> {
  for (const deadline = Date.now() + withinMs; ; ) {
    if ((await livenessOf(process)) !== 'alive') return true
    if (Date.now() >= deadline) return false
    await sleep(POLL_MS)
  }
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') throw error
  }
}
