import { enginePlace } from '../../adapters/docker/engine/engine-place.ts'
import type { Engine } from '../../adapters/docker/engine/engine.ts'
import { engineFreeBytes } from '../../adapters/docker/images/evict-images.ts'
import { listLeftovers } from '../../adapters/docker/reaper/list-leftovers.ts'
import { judgeLeftover } from '../../domain/leftovers.ts'
import { type Finding, GIB, ok, warn } from './finding.ts'

const TIMEOUT_MS = 10_000
/** A container's own files and a turn's records do not fit any more. */
const FULL_BYTES = 64 * 1024 ** 2

/** Finds overdue resources of any owner: a sandbox worker of their stack would have removed them within half a minute. */
export async function findLeftovers(engine: Engine): Promise<Finding> {
  const all = await listLeftovers({ engine, now: Date.now(), signal: AbortSignal.timeout(TIMEOUT_MS) })
  const overdue = all.filter((thing) => judgeLeftover(thing, thing).kind === 'remove')
  const running = all.filter(({ state }) => state === 'running').length
  const value = `${running} sandboxes run, ${overdue.length} things are overdue`
  return overdue.length === 0
    ? ok(value)
    : warn(value, 'longhaul reap --dry-run (other stacks: start their workers, or longhaul down there)')
}

/** Room for images, against the watermark of the workers. */
export async function findImageRoom(engine: Engine, minFreeGib: number): Promise<Finding> {
  const free = await engineFreeBytes(engine)
  if (free === null) return ok('on another machine; its workers watch it')
  const { rootDir } = await enginePlace(engine)
  if (free < FULL_BYTES) {
    const fix = 'free disk there (docker system df); unused task images go by themselves'
    return warn(`Sandbox.OutOfDisk: ${rootDir} is full`, fix)
  }
  const value = `${(free / GIB).toFixed(0)} GiB free at ${rootDir}; below ${minFreeGib} GiB unused task images go`
  return free < minFreeGib * GIB ? warn(value, 'docker image prune, or a disk with more room') : ok(value)
}
