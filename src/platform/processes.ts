import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** A process that cannot be mistaken for a later one with the same number. */
export interface ProcessIdentity {
  pid: number
  /** Clock ticks between boot and start; empty where the system does not tell (then only the number is compared). */
  startTime: string
}

export function identify(pid: number): ProcessIdentity {
  return { pid, startTime: readStat(pid)?.startTime ?? '' }
}

/** A zombie counts as gone: it holds nothing, and its parent may never look. */
export function isAlive({ pid, startTime }: ProcessIdentity): boolean {
  if (process.platform !== 'linux') return signalReaches(pid)
  const stat = readStat(pid)
  if (stat === null || stat.state === 'Z') return false
  return startTime === '' || stat.startTime === startTime
}

/** Signals the process only while it is still the one that was recorded; true when it was sent. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false
  return send(identity.pid, signal)
}

/** The same for a process group that the process leads; falls back to the process alone. */
export function signalGroup(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false
  return send(-identity.pid, signal) || send(identity.pid, signal)
}

export interface StopProcessInput {
  identity: ProcessIdentity
  /** Between TERM and KILL. */
  graceMs: number
}

/** TERM, a grace time, then KILL for the whole group. Resolves when the process is gone. */
export async function stopProcess({ identity, graceMs }: StopProcessInput): Promise<'gone' | 'ended' | 'killed'> {
  if (!signalGroup(identity, 'SIGTERM')) return 'gone'
  if (await waitUntilGone({ identity, timeoutMs: graceMs })) return 'ended'
  signalGroup(identity, 'SIGKILL')
  await waitUntilGone({ identity, timeoutMs: 10_000 })
  return 'killed'
}

export async function waitUntilGone(input: { identity: ProcessIdentity; timeoutMs: number }): Promise<boolean> {
  const deadline = Date.now() + input.timeoutMs
  while (isAlive(input.identity)) {
    if (Date.now() > deadline) return false
    await sleep(50)
  }
  return true
}

export interface RunningProcess extends ProcessIdentity {
  parent: number
  command: string
}

/** All processes of this machine (Linux only; elsewhere none). */
export function listProcesses(): RunningProcess[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const pid = Number(name)
      const stat = readStat(pid)
      if (stat === null || stat.state === 'Z') return []
      return [{ pid, startTime: stat.startTime, parent: stat.parent, command: readCommand(pid) }]
    })
}

/** The process and everything below it, children first. */
export function withDescendants(root: RunningProcess, all: RunningProcess[]): RunningProcess[] {
  const children = all.filter(({ parent }) => parent === root.pid)
  return [...children.flatMap((child) => withDescendants(child, all)), root]
}

function readStat(pid: number): { state: string; parent: number; startTime: string } | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The command in parentheses may hold spaces and parentheses; fields are counted after its last one.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0] ?? '', parent: Number(fields[1]), startTime: fields[19] ?? '' }
  } catch {
    return null
  }
}

function readCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
  } catch {
    return ''
  }
}

function signalReaches(pid: number): boolean {
  return send(pid, 0)
}

function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(pid, signal)
    return true
  } catch {
    return false
  }
}
