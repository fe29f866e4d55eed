import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { QUEUES } from '../contracts/workflow-ids.ts'

/**
 * The queue of this machine start. The kernel's boot id, not the worker process's: a restarted worker finds its sandboxes,
 * a rebooted host (whose containers are gone) gets no stale tasks. Elsewhere than on Linux the process start stands in.
 */
export function hostIdentity(hostId: string | null): { hostId: string; hostQueue: string } {
  const id = (hostId ?? hostname()).replaceAll(/[^A-Za-z0-9-]/g, '-').slice(0, 40)
  return { hostId: id, hostQueue: QUEUES.sandboxHost(id, bootId()) }
}

function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim().slice(0, 8)
  } catch {
    return `pid${process.pid}`
  }
}
