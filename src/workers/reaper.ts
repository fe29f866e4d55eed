import { type ReapReport, type ResourceHolder, reapOrphaned } from '../adapters/docker/reaper/reap-orphaned.ts'
import { toLonghaulError } from '../contracts/errors.ts'
import { Runtime } from '@temporalio/worker'
import type { Engine } from '../adapters/docker/engine/engine.ts'
import { evictImages } from '../adapters/docker/images/evict-images.ts'
import type { ImageKeeper } from '../adapters/docker/images/image-keeper.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { type Rounds, startRounds } from './rounds.ts'
import { createOwnerRegistry, type ServerConnection } from './workflow-owners.ts'

/** Two sweeps within the minute for which an orphaned resource may outlive its lease. */
const INTERVAL_MS = 30_000

/** A frozen engine must not block a sweep forever. The next sweep tries again. */
const SWEEP_TIMEOUT_MS = 20_000

interface ReaperOptions {
  sweep: (signal: AbortSignal) => Promise<ReapReport>
  log: ReaperLog
  /** @default 30_000 */
  intervalMs?: number
  /** @default 20_000 */
  timeoutMs?: number
}

interface ReaperLog {
  info(message: string, facts: Record<string, unknown>): void
  warn(message: string, facts: Record<string, unknown>): void
}

/** Sweeps at once and then at intervals until it is stopped. An unavailable engine or server fails the sweep and never the reaper. A
 *  failure is logged once, and so is its end. */
export function startReaper(options: ReaperOptions): Rounds {
  const { sweep, log, intervalMs = INTERVAL_MS, timeoutMs = SWEEP_TIMEOUT_MS } = options
  let total = 0
  let trouble: string | null = null
  return startRounds(intervalMs, async (stopping) => {
    try {
      const report = await withinTime(sweep, { timeoutMs, stopping })
      total += report.removed.length
      if (report.removed.length > 0) log.info('removed orphaned resources', { removed: report.removed, total })
      trouble = tellOnce(trouble, report.failed.map(({ name, error }) => `${name}: ${error}`).join('; '), log)
    } catch (error) {
      if (stopping.aborted) return
      trouble = tellOnce(trouble, toLonghaulError(error).message, log)
    }
  })
}

/** Some requests of an engine's client ignore the signal. The wait then ends, and the request dies with its socket. */
async function withinTime<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { timeoutMs, stopping }: { timeoutMs: number; stopping: AbortSignal },
): Promise<T> {
  const late = AbortSignal.timeout(timeoutMs)
  const signal = AbortSignal.any([late, stopping])
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(late.aborted ? new Error(`not finished within ${timeoutMs} ms`) : signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const running = work(signal)
  running.catch(() => undefined)
  try {
    return await Promise.race([running, ended])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function tellOnce(before: string | null, now: string, log: ReaperLog): string | null {
  if (now === '') {
    if (before !== null) log.info('orphaned resources can be removed again', {})
    return null
  }
  if (now !== before) log.warn('orphaned resources could not be removed', { reason: now })
  return now
}

interface HostReaperInput {
  holder: ResourceHolder
  hostId: string
  namespaceId: string
  namespace: string
  connection: ServerConnection
  store: ArtifactStore
  /** The engine whose images are removed when the disk is nearly full. Absent for a cluster, where kubelets remove images. */
  images?: { engine: Engine; keeper: ImageKeeper; minFreeBytes: number }
  /** @default 30_000 */
  intervalMs?: number
}

/** The reaper of a sandbox worker. Every worker of a host has one. They find the same resources and do not conflict. */
export function startHostReaper(input: HostReaperInput): Rounds {
  const { holder, hostId, namespaceId, namespace, connection, store, images: kept, intervalMs } = input
  const owners = createOwnerRegistry({ connection, namespace, store })
  const now = createSteadyClock()
  const { logger, metricMeter } = Runtime.instance()
  const removed = metricMeter.createCounter('longhaul_leftovers_removed', 'things', 'containers, networks, volumes')
  return startReaper({
    log: logger,
    ...(intervalMs === undefined ? {} : { intervalMs }),
    async sweep(signal) {
      const report = await reapOrphaned({
        holder,
        reaper: { host: hostId, namespaceId },
        owners,
        now: now(),
        signal,
      })
      // After the containers, because their removal frees images.
      const images = kept === undefined ? [] : await evictImages({ ...kept, signal })
      if (images.length > 0) logger.info('removed images for room', { images })
      for (const { kind, why } of report.removed) removed.add(1, { kind, why })
      return report
    },
  })
}

/** Milliseconds since 1970 at its start, advanced by the kernel's monotonic counter. Ages measured with it stay correct if the clock
 *  jumps by an hour, so the jump causes no removal. */
function createSteadyClock(startMs: number = Date.now()): () => number {
  const started = performance.now()
  return () => startMs + (performance.now() - started)
}
