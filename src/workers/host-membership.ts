import { setTimeout as sleep } from 'node:timers/promises'
import type { HostDoor } from '../activities/runtime/host-door.ts'
import { connect, joinHost, readHostState } from '../client/index.ts'
import { isLonghaulError } from '../contracts/errors.ts'
import type { HostHolder, HostState } from '../contracts/hosts.types.ts'
import { isSameHolder } from '../contracts/host-holder.ts'
import type { TemporalSettings } from '../platform/temporal-settings.ts'

/** Maximum delay until a worker obeys an order. Each check is one small call. */
const LOOK_EVERY_MS = 3_000
/** A worker repeats its announcement at this interval while no control worker has answered. The interval is long because the server
 *  keeps at most 10,000 signals per workflow. */
const ANNOUNCE_EVERY_MS = 15 * 60_000

interface MembershipInput {
  temporal: Pick<TemporalSettings, 'address' | 'namespace'>
  host: string
  holder: HostHolder
  door: Pick<HostDoor, 'obey'>
  log: (message: string, facts: Record<string, unknown>) => void
  /** @default 3_000 */
  lookEveryMs?: number
}

export interface Membership {
  /** Rejects once a worker of another machine has taken the name. */
  broken: Promise<never>
  stop(): Promise<void>
}

/**
 * Joins as a host and obeys the operator's orders until it is stopped. While the server is unavailable, the last order stays in force.
 * If the server has lost its database, it knows no host, and the worker joins anew.
 * @throws LonghaulError `Config.Invalid` if another machine has the name
 */
export async function joinAsHost({
  temporal,
  host,
  holder,
  door,
  log,
  lookEveryMs = LOOK_EVERY_MS,
}: MembershipInput): Promise<Membership> {
  const { address, namespace } = temporal
  const connection = await connect({ address, namespace })
  const stopping = new AbortController()
  const { promise: broken, reject } = Promise.withResolvers<never>()
  broken.catch(() => undefined)
  const obey = ({ drain }: HostState): void => {
    if (door.obey(drain)) log(drain === null ? 'this host takes work' : 'this host is drained', { host, ...drain })
  }
  try {
    obey(await joinHost({ connection, host, holder }))
  } catch (error) {
    await connection.close()
    throw error
  }
  let announcedMs = performance.now()
  const look = async (): Promise<void> => {
    const state = await readHostState({ connection, host })
    const isOurs = state !== null && isSameHolder(state.holder, holder)
    // The order is recorded, and a control worker carries it out when it is back. Another event at every check would fill the history
    // until then.
    const isAnnounced = state?.isAttended === false && performance.now() - announcedMs < ANNOUNCE_EVERY_MS
    if (isOurs || isAnnounced) {
      obey(state)
      return
    }
    obey(await joinHost({ connection, host, holder }))
    announcedMs = performance.now()
  }
  const watching = (async () => {
    while (!stopping.signal.aborted) {
      await sleep(lookEveryMs, undefined, { signal: stopping.signal }).catch(() => undefined)
      if (stopping.signal.aborted) return
      try {
        await look()
      } catch (error) {
        if (!isLonghaulError(error) || error.code !== 'Config.Invalid') continue
        reject(error)
        return
      }
    }
  })()
  return {
    broken,
    async stop() {
      stopping.abort()
      await watching
      await connection.close()
    },
  }
}
