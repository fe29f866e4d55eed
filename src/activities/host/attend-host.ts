import { setTimeout as sleep } from 'node:timers/promises'
import type { HostFacts } from '../../contracts/hosts.types.ts'
import type { ActivityScope } from '../runtime/activity-runtime.ts'
import type { HostDoor } from '../runtime/host-door.ts'

interface AttendDependencies {
  door: Pick<HostDoor, 'stopping'>
  /** Reports what the host currently holds. */
  look: () => Promise<HostFacts>
  /** @default 5_000 */
  everyMs?: number
  /** @default half a day */
  forMs?: number
}

/** Half of what an attempt may take. The workflow's history gets an entry, and the next attempt begins at once. */
const HALF_A_DAY_MS = 12 * 60 * 60_000
const EVERY_MS = 5_000

/** Ends at once when the worker stops, because it must not delay a restart by the grace period of activities. */
export async function attendHost(
  { door, look, everyMs = EVERY_MS, forMs = HALF_A_DAY_MS }: AttendDependencies,
  { beat, signal }: Pick<ActivityScope, 'beat' | 'signal'>,
): Promise<void> {
  const either = AbortSignal.any([signal, door.stopping])
  for (const untilMs = performance.now() + forMs; !either.aborted && performance.now() < untilMs; ) {
    beat(await look())
    await sleep(everyMs, undefined, { signal: either }).catch(() => undefined)
  }
  signal.throwIfAborted()
}
