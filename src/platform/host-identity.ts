import { hostname } from 'node:os'
import { QUEUES } from '../contracts/workflow-ids.ts'
import { bootId } from './processes.ts'

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
