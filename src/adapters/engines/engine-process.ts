import { type ChildProcess, spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { errnoOf } from '../../platform/files.ts'
import { type HostProcess, identifyOnHost } from '../../platform/processes.ts'
import type { StartCommand } from '../policy-server/start-command.ts'

export interface EngineEnd {
  code: number | null
  signal: string | null
}

export interface EngineProcess {
  identity: HostProcess
  /** Resolves when the engine itself has exited. Its children may live until `stop`. */
  ended: Promise<EngineEnd>
  /** Sends TERM, waits for the grace period, then sends KILL to all of its processes. */
  stop(): Promise<void>
}

/** Grace period for requests in flight. An engine writes nothing that it would need later. */
const GRACE_MS = 5_000

/**
 * Runs the engine as a child of a shell. A subshell reads from a pipe of this process. If this process dies for any reason, the pipe
 * closes and the subshell kills the whole process group. TERM reaches the shells too, but they outlive it, so that the engine's own
 * exit is reported.
 */
const WITH_WATCH = `
exec 3<&0 </dev/null
trap : TERM
"$@" 3<&- &
engine=$!
( trap '' TERM; read -r _ <&3; kill -KILL 0 ) >/dev/null 2>&1 &
exec 3<&-
wait "$engine"; code=$?
while kill -0 "$engine" 2>/dev/null; do wait "$engine"; code=$?; done
exit "$code"
`

export interface StartEngineInput {
  start: StartCommand
  /** Working directory. */
  directory: string
  /** Directory for sockets and other files that a killed engine leaves behind. */
  temporary: string
  log: string
}

/** Starts an engine in its own process group, which cannot outlive this process. */
export async function startEngine({ start, directory, temporary, log }: StartEngineInput): Promise<EngineProcess> {
  const output = await open(log, 'a')
  try {
    const child = spawn('/bin/sh', ['-c', WITH_WATCH, 'sh', ...start.command], {
      cwd: directory,
      detached: true,
      stdio: ['pipe', output.fd, output.fd],
      env: { ...process.env, TMPDIR: temporary, ...start.environment },
    })
    // The other end may have closed first.
    child.stdin?.on('error', () => undefined)
    const ended = endOf(child)
    const pid = await startedPid(child)
    return { identity: identifyOnHost(pid), ended, stop: () => stopGroup(pid, ended) }
  } finally {
    await output.close()
  }
}

function endOf(child: ChildProcess): Promise<EngineEnd> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.once('error', () => resolve({ code: null, signal: null }))
  })
}

function startedPid(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('spawn', () => resolve(child.pid ?? 0))
    child.once('error', reject)
  })
}

/** The watching subshell keeps the group alive, so the group's id stays ours until the last signal. */
async function stopGroup(group: number, ended: Promise<EngineEnd>): Promise<void> {
  const grace = new AbortController()
  if (signalGroup(group, 'SIGTERM')) {
    await Promise.race([ended, sleep(GRACE_MS, undefined, { signal: grace.signal }).catch(() => undefined)])
    grace.abort()
  }
  signalGroup(group, 'SIGKILL')
  await ended
}

function signalGroup(group: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-group, signal)
    return true
  } catch (error) {
    if (errnoOf(error) === 'ESRCH') return false
    throw error
  }
}
