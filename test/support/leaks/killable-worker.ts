import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const PROGRAM = fileURLToPath(new URL('../../../bin/longhaul.mjs', import.meta.url))

/** A sandbox worker as `longhaul up` starts it, in its own process group. */
export interface KillableWorker {
  pid: number
  /** Resolves when it polls; rejects if it ends before. */
  ready: Promise<void>
  /** Sends SIGKILL to the whole group; resolves when it is gone. */
  kill(): Promise<void>
  stop(): Promise<void>
  /** Open file descriptors. */
  descriptors(): number
  /** The reaper's log: removed resources and reasons. */
  removed(): { name: string; why: string }[]
}

export function startSandboxWorker(env: Record<string, string>): KillableWorker {
  const child = spawn(process.execPath, [PROGRAM, 'worker', '--role', 'sandbox'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  })
  const pid = child.pid ?? 0
  const removed: { name: string; why: string }[] = []
  const tail: string[] = []
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  ready.catch(() => undefined)
  createInterface({ input: child.stderr }).on('line', (line) => {
    tail.push(line)
    if (tail.length > 20) tail.shift()
    const entry = parseEntry(line)
    if (entry?.message === 'Worker state changed' && entry.state === 'RUNNING') resolve()
    if (entry?.message === 'removed orphaned resources') removed.push(...(entry.removed ?? []))
  })
  child.once('exit', () => reject(new Error(`The worker ended before it was ready:\n${tail.join('\n')}`)))
  return {
    pid,
    ready,
    kill: () => end(child, () => process.kill(-pid, 'SIGKILL')),
    stop: () => end(child, () => child.kill('SIGTERM')),
    descriptors: () => readdirSync(`/proc/${pid}/fd`).length,
    removed: () => removed,
  }
}

interface Entry {
  message: string
  state?: string
  removed?: { name: string; why: string }[]
}

function parseEntry(line: string): Entry | null {
  try {
    return JSON.parse(line) as Entry
  } catch {
    return null
  }
}

async function end(child: ChildProcess, signal: () => void): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  signal()
  await gone
}
