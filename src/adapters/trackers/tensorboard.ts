import { open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { randomUUID } from 'node:crypto'
import { dirname, join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TensorboardRecipe, TrackedRun } from '../../contracts/trackers.types.ts'
import { errnoOf, makeDirectory } from '../../platform/files.ts'
import { eventFrames } from './event-file.ts'
import type { Tracker } from './tracker.types.ts'

/**
 * Writes one event file for each run. Its bytes depend only on the run's points, and later readings of a run only append points. A file
 * that holds a prefix is therefore completed, by any number of senders concurrently, and a TensorBoard that has the file open sees the
 * rest. A file with any other content is replaced.
 */
export function tensorboardTracker({ directory }: TensorboardRecipe): Tracker {
  return {
    name: `tensorboard ${directory}`,
    async send(run, { isDry, onSent, signal }) {
      const frames = eventFrames(run.points)
      if (frames.length === 0) return
      const path = eventFilePath(directory, run)
      try {
        const whole = Buffer.concat(frames.map(({ bytes }) => bytes))
        const there = await readIfThere(path)
        const end = there === null ? 0 : sharedEnd(there, whole)
        signal.throwIfAborted()
        if (!isDry && end !== null && end < whole.length) await complete(path, whole, end)
        if (!isDry && end === null) await replace(path, whole)
        onSent(pointsAfter(frames, end ?? 0))
      } catch (error) {
        if (signal.aborted) throw error
        throw new LonghaulError({
          code: 'Tracker.Unavailable',
          message: `TensorBoard: the event file ${path} cannot be written (${errnoOf(error) ?? String(error)}): check that the directory exists and that this user may write to it`,
          cause: error,
        })
      }
    },
  }
}

/** TensorBoard reads every file whose name contains `tfevents`, in the order of the names. */
function eventFilePath(directory: string, { run, id, points }: TrackedRun): string {
  const seconds = Math.floor((points[0]?.atMs ?? 0) / 1000)
  return join(directory, run, `events.out.tfevents.${seconds}.longhaul${id === '' ? '' : `.${id.slice(0, 8)}`}`)
}

async function readIfThere(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null
    throw error
  }
}

/** Returns where the existing bytes end, possibly in the middle of a frame; null if they have other content. */
function sharedEnd(there: Buffer, whole: Buffer): number | null {
  const shorter = Math.min(there.length, whole.length)
  return there.subarray(0, shorter).equals(whole.subarray(0, shorter)) ? shorter : null
}

function pointsAfter(frames: ReturnType<typeof eventFrames>, end: number): number {
  let [offset, count] = [0, 0]
  for (const { bytes, points } of frames) {
    offset += bytes.length
    if (offset > end) count += points
  }
  return count
}

/** Writes by position and never appends, because two senders write the same bytes to the same positions. */
async function complete(path: string, whole: Buffer, end: number): Promise<void> {
  if (end === 0) return replace(path, whole)
  const file = await open(path, 'r+')
  try {
    await file.write(whole, end, whole.length - end, end)
  } finally {
    await file.close()
  }
}

async function replace(path: string, whole: Buffer): Promise<void> {
  await makeDirectory(dirname(path))
  const temporary = join(dirname(path), `.${randomUUID()}.part`)
  try {
    await writeFile(temporary, whole)
    await rename(temporary, path)
  } finally {
    await rm(temporary, { force: true })
  }
}
