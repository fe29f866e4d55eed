/** Whether a fault's effect was seen. A signal that met no process, or a full disk that no worker wrote to, has struck nothing. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { identify, isAlive, type ProcessIdentity, waitUntilGone } from '../../../src/platform/processes.ts'
import { type AuditEntry, readAuditLog } from './audit-log.ts'
import type { ChaosStack } from './chaos-stack.ts'
import type { ManagedProcess } from './managed-process.ts'

/** Processes as they are now; null where there is one that does not run. */
export function livingProcesses(all: readonly ManagedProcess[]): ProcessIdentity[] | null {
  const pids = all.map(({ pid }) => pid)
  return pids.includes(null) ? null : pids.map((pid) => identify(pid ?? 0))
}

const DEATH_MS = 5_000

/** @param before null: there was nothing to die */
export async function haveDied(
  before: readonly ProcessIdentity[] | null,
  timeoutMs: number = DEATH_MS,
): Promise<boolean> {
  if (before === null || before.length === 0) return false
  const gone = await Promise.all(before.map((identity) => waitUntilGone({ identity, timeoutMs })))
  return gone.every(Boolean)
}

/** The kernel has stopped it. */
export function isStopped(identity: ProcessIdentity): boolean {
  if (!isAlive(identity)) return false
  const stat = readFileSync(`/proc/${identity.pid}/stat`, 'utf8')
  return /^T/i.test(stat.slice(stat.lastIndexOf(')') + 2))
}

export async function untilStopped(identity: ProcessIdentity): Promise<boolean> {
  for (const deadline = Date.now() + DEATH_MS; Date.now() < deadline; await sleep(20)) {
    if (isStopped(identity)) return true
  }
  return false
}

export async function isRunning(engine: Engine, name: string): Promise<boolean> {
  try {
    return (await engine.docker.getContainer(name).inspect()).State.Running
  } catch {
    return false
  }
}

/** A worker has noted it since. */
export function isNoted(stack: ChaosStack, sinceMs: number, matches: (entry: AuditEntry) => boolean): boolean {
  return readAuditLog(stack.auditDir).some((entry) => entry.atMs >= sinceMs && matches(entry))
}

/** The policy server has answered otherwise than well since. */
export function wasTroubled({ policyState }: ChaosStack, sinceMs: number, kind: string): boolean {
  let text = ''
  try {
    text = readFileSync(join(policyState, 'exchanges.jsonl'), 'utf8')
  } catch {
    return false
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { startedMs: number; endedMs: number; trouble?: string | null })
    .some(({ endedMs, trouble }) => endedMs >= sinceMs && trouble === kind)
}
