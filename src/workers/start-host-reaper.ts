import { Runtime } from '@temporalio/worker'
import type { Engine } from '../adapters/docker/engine/engine.ts'
import { evictImages } from '../adapters/docker/images/evict-images.ts'
import type { ImageKeeper } from '../adapters/docker/images/image-keeper.ts'
import { reapLeftovers } from '../adapters/docker/reaper/reap-leftovers.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { type RunningReaper, startReaper } from './reaper.ts'
import { createSteadyClock } from './steady-clock.ts'
import { createOwnerRegistry, type ServerConnection } from './workflow-owners.ts'

export interface HostReaperInput {
  engine: Engine
  hostId: string
  namespaceId: string
  namespace: string
  connection: ServerConnection
  store: ArtifactStore
  keeper: ImageKeeper
  minFreeBytes: number
  /** @default 30_000 */
  intervalMs?: number
}

/** The reaper of a sandbox worker. Several workers of one host each have one: they find the same things and agree. */
export function startHostReaper(input: HostReaperInput): RunningReaper {
  const { engine, hostId, namespaceId, namespace, connection, store, keeper, minFreeBytes, intervalMs } = input
  const owners = createOwnerRegistry({ connection, namespace, store })
  const now = createSteadyClock()
  const { logger, metricMeter } = Runtime.instance()
  const removed = metricMeter.createCounter('longhaul_leftovers_removed', 'things', 'containers, networks, volumes')
  return startReaper({
    log: logger,
    ...(intervalMs === undefined ? {} : { intervalMs }),
    async sweep(signal) {
      const report = await reapLeftovers({
        engine,
        reaper: { host: hostId, namespaceId },
        owners,
        now: now(),
        signal,
      })
      // After the containers: images are free with them.
      const images = await evictImages({ engine, keeper, minFreeBytes, signal })
      if (images.length > 0) logger.info('removed images for room', { images })
      for (const { kind, why } of report.removed) removed.add(1, { kind, why })
      return report
    },
  })
}
