import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf } from './files.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'

/** Identifies a process, and distinguishes it from a later one with the same pid. */
export interface ProcessIdentity {
  pid: number
  /** Clock ticks between boot and start; empty if the system does not report them (then only the pid is compared). */
  startTime: string
}

export function identify(pid: number): ProcessIdentity {
  return { pid, startTime: readStat(pid)?.startTime ?? '' }
}

/** A zombie counts as gone: it has no resources, and its parent may never reap it. */
export function isAlive({ pid, startTime }: ProcessIdentity): boolean {
  if (process.platform !== 'linux') return signalReaches(pid)
  const stat = readStat(pid)
  if (stat === null || isGone(stat)) return false
  return startTime === '' || stat.startTime === startTime
}

/** Signals the process only if it is still the recorded one; true if the signal was sent. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false
  return send(identity.pid, signal)
}

/** The same for the process group that the process leads, or else for the process alone. */
export function signalGroup(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isAlive(identity)) return false
  return send(-identity.pid, signal) || send(identity.pid, signal)
}

const POLL_MS = 50
/** A killed process that exists for longer hangs in the kernel, and no signal can end it. */
const KILL_WAIT_MS = 10_000

export interface StopProcessInput {
  identity: ProcessIdentity
  /** Between the signal and KILL. */
  graceMs: number
  /** @default SIGTERM */
  signal?: NodeJS.Signals | undefined
}

/** Sends the signal and, after a grace time, KILL to the whole group. Resolves when the process is gone. */
export async function stopProcess(input: StopProcessInput): Promise<'gone' | 'ended' | 'killed'> {
  const { identity, graceMs, signal = 'SIGTERM' } = input
  if (!signalGroup(identity, signal)) return 'gone'
  if (await waitUntilGone({ identity, timeoutMs: graceMs })) return 'ended'
  signalGroup(identity, 'SIGKILL')
  await waitUntilGone({ identity, timeoutMs: KILL_WAIT_MS })
  return 'killed'
}

export async function waitUntilGone(input: { identity: ProcessIdentity; timeoutMs: number }): Promise<boolean> {
  const deadline = Date.now() + input.timeoutMs
  while (isAlive(input.identity)) {
    if (Date.now() > deadline) return false
    await sleep(POLL_MS)
  }
  return true
}

export interface RunningProcess extends ProcessIdentity {
  parent: number
  command: string
}

/** All processes of this machine (on Linux only). */
export function listProcesses(): RunningProcess[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const pid = Number(name)
      const stat = readStat(pid)
      if (stat === null || isGone(stat)) return []
      return [{ pid, startTime: stat.startTime, parent: stat.parent, command: readCommand(pid) }]
    })
}

/** The process and its descendants, children first. */
export function withDescendants(root: RunningProcess, all: RunningProcess[]): RunningProcess[] {
  const children = all.filter(({ parent }) => parent === root.pid)
  return [...children.flatMap((child) => withDescendants(child, all)), root]
}

/** Identifies a process across machines by host and boot. Records contain it, so the fields keep their names. */
export interface HostProcess {
  host: string
  bootId: string | null
  pid: number
  /** Clock ticks since boot, as the kernel prints them. */
  pidStart: string | null
}

/** Where process ids mean the same: a machine, or a container with ids of its own. */
export interface ProcessSpace {
  host: string
  /** Null if the system does not report it: then no other space is told apart. */
  bootId: string | null
  /** The system's name of the container's ids; null without such. */
  pidNamespace: string | null
}

export function thisProcessSpace(): ProcessSpace {
  return { host: hostname(), bootId: bootId(), pidNamespace: pidNamespace() }
}

/**
 * Whether a process of that space can be looked up here. One of an earlier boot can: it is gone. The name of a machine alone does not
 * decide, because a laptop may get another one from each network.
 */
export function isThisProcessSpace(space: ProcessSpace): boolean {
  const here = thisProcessSpace()
  if (space.bootId === null || here.bootId === null) return true
  return space.bootId === here.bootId ? space.pidNamespace === here.pidNamespace : space.host === here.host
}

export function identifyOnHost(pid: number): HostProcess {
  return { host: hostname(), bootId: bootId(), pid, pidStart: startTimeOf(pid) }
}

export type Liveness = 'alive' | 'dead' | 'unknown'

/** `unknown`: the process is on another machine. */
export function livenessOf(process: HostProcess): Liveness {
  if (process.host !== hostname()) return 'unknown'
  if (process.bootId !== bootId()) return 'dead'
  const start = startTimeOf(process.pid)
  return start !== null && start === process.pidStart ? 'alive' : 'dead'
}

/** Null if the process is gone or only waits to be reaped. */
function startTimeOf(pid: number): string | null {
  const stat = readStat(pid)
  return stat === null || isGone(stat) ? null : stat.startTime
}

function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return null
  }
}

function pidNamespace(): string | null {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return null
  }
}

/** Sends TERM to the group, and after `graceMs` KILL to the rest, including children that outlived the leader. True if the leader is gone. */
export async function stopSession(leader: HostProcess, graceMs: number): Promise<boolean> {
  if (livenessOf(leader) !== 'alive') return true
  const identity = { pid: leader.pid, startTime: leader.pidStart ?? '' }
  signalAll(leader.pid, 'SIGTERM')
  // A stopped process (debugger, kill -STOP) receives no signal until it continues; then it saves its last step.
  signalAll(leader.pid, 'SIGCONT')
  const hasEnded = await waitUntilGone({ identity, timeoutMs: graceMs })
  signalAll(leader.pid, 'SIGKILL')
  return hasEnded || waitUntilGone({ identity, timeoutMs: KILL_WAIT_MS })
}

function signalAll(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal)
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') throw error
  }
}

/** A zombie or a process that is being removed. */
function isGone({ state }: { state: string }): boolean {
  return state === 'Z' || state === 'X'
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

/**
 * Name of this machine as a sandbox host, and its task queue since boot. The queue contains the kernel's boot id: a restarted
 * worker finds its sandboxes again, and a rebooted host, whose containers are gone, gets no stale tasks. On other systems than Linux the process start
 * replaces the boot id.
 * @param name null: the machine's own
 */
export function hostIdentity(name: string | null): { hostId: string; hostQueue: string } {
  const id = (name ?? hostname()).replaceAll(/[^A-Za-z0-9-]/g, '-').slice(0, 40)
  const started = bootId()?.slice(0, 8) ?? `pid${process.pid}`
  return { hostId: id, hostQueue: QUEUES.sandboxHost(id, started) }
}
