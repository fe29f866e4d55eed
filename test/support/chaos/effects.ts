/** Whether a fault's effect was seen. A signal that hit no process, or a full disk to which no worker wrote, has not struck. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { identify, isAlive, type ProcessIdentity, waitUntilGone } from '../../../src/platform/processes.ts'
import { type AuditEntry, readAuditLog } from './audit-log.ts'
import type { ChaosStack } from './chaos-stack.ts'
import type { Exchange } from '../recording-proxy.ts'
import type { ManagedProcess } from './managed-process.ts'

/** Identities of the current processes; null if one of them does not run. */
export function livingProcesses(all: readonly ManagedProcess[]): ProcessIdentity[] | null {
  const pids = all.map(({ pid }) => pid)
  return pids.includes(null) ? null : pids.map((pid) => identify(pid ?? 0))
}

const DEATH_MS = 5_000

/** @param before null: no process could die */
export async function haveDied(
  before: readonly ProcessIdentity[] | null,
  timeoutMs: number = DEATH_MS,
): Promise<boolean> {
  if (before === null || before.length === 0) return false
  const gone = await Promise.all(before.map((identity) => waitUntilGone({ identity, timeoutMs })))
  return gone.every(Boolean)
}

/** Whether the kernel has stopped the process. */
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

/** Whether a worker has recorded it since. */
export function isNoted(stack: ChaosStack, sinceMs: number, matches: (entry: AuditEntry) => boolean): boolean {
  return readAuditLog(stack.auditDir).some((entry) => entry.atMs >= sinceMs && matches(entry))
}

/** A request to a policy server, as the server logs it at the end. */
interface NotedExchange extends Exchange {
  endedMs: number
  server: string
  trouble: string | null
}

/** Whether a policy server has answered with this trouble since. @param server @default any */
export function wasTroubled(stack: ChaosStack, sinceMs: number, kind: string, server?: string): boolean {
  return readExchanges(stack).some(
    (one) => one.endedMs >= sinceMs && one.trouble === kind && (server === undefined || one.server === server),
  )
}

/** Whether another server than this one has answered the session properly since. */
export function wasAnswered(
  stack: ChaosStack,
  { sinceMs, session, not }: { sinceMs: number; session: string; not: string },
): boolean {
  return readExchanges(stack).some(
    (one) => one.endedMs >= sinceMs && one.session === session && one.server !== not && one.status === 200,
  )
}

/** Requests to all policy servers; empty before the first one. */
export function readExchanges({ policyState }: Pick<ChaosStack, 'policyState'>): NotedExchange[] {
  const path = join(policyState, 'exchanges.jsonl')
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as NotedExchange)
}
