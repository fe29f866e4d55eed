import { open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { randomUUID } from 'node:crypto'
import { dirname, join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TensorboardRecipe, TrackedPoint, TrackedRun } from '../../contracts/trackers.types.ts'
import { errnoOf, makeDirectory } from '../../platform/files.ts'
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
    for (let at = end; at < whole.length; ) {
      // A disk that fills up takes a part of the bytes without an error; the write of the rest gives the error.
      const { bytesWritten } = await file.write(whole, at, whole.length - at, at)
      at += bytesWritten
    }
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

// TensorBoard's event files: TFRecord frames around protobuf `Event` messages, as defined in tensorflow/core/lib/io/record_writer.h and
// tensorflow/core/util/event.proto.

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  // Castagnoli's polynomial, reflected.
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0)
  return crc
})

/** CRC-32C (RFC 3720, B.4). */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffff_ffff
  for (const byte of bytes) crc = (crc >>> 8) ^ (TABLE[(crc ^ byte) & 0xff] ?? 0)
  return (crc ^ 0xffff_ffff) >>> 0
}

/** Masks a CRC, because CRCs over data that contains CRCs are weak. */
function masked(crc: number): number {
  return (((crc >>> 15) | (crc << 17)) + 0xa282_ead8) >>> 0
}

/** Format: length (8 bytes), its CRC, the data, its CRC; little-endian. */
function frameRecord(data: Uint8Array): Buffer {
  const frame = Buffer.alloc(12 + data.length + 4)
  frame.writeBigUInt64LE(BigInt(data.length))
  frame.writeUInt32LE(masked(crc32c(frame.subarray(0, 8))), 8)
  frame.set(data, 12)
  frame.writeUInt32LE(masked(crc32c(data)), 12 + data.length)
  return frame
}

/** Points encoded as one or more frames. */
export interface EventFrames {
  bytes: Buffer
  /** Number of points in the frames. */
  points: number
}

/** Encodes one frame for the file's version, then one for the points of each record and step. Values become single precision, the
 *  only precision of the format. */
export function eventFrames(points: readonly TrackedPoint[]): EventFrames[] {
  const [first] = points
  if (first === undefined) return []
  const frames: EventFrames[] = [{ bytes: frameRecord(event(first.atMs, [text(3, 'brain.Event:2')])), points: 0 }]
  let from = 0
  for (let at = 1; at <= points.length; at++) {
    const [begin, next] = [points[from], points[at]]
    if (begin === undefined || (next?.atMs === begin.atMs && next.step === begin.step)) continue
    const together = points.slice(from, at)
    const summary = Buffer.concat(together.map(({ metric, value }) => message(1, [text(1, metric), float(2, value)])))
    frames.push({
      bytes: frameRecord(event(begin.atMs, [varint(2, begin.step), message(5, [summary])])),
      points: together.length,
    })
    from = at
  }
  return frames
}

/** Encodes `wall_time` in seconds, then the other fields. */
function event(atMs: number, fields: readonly Buffer[]): Buffer {
  const time = Buffer.alloc(9)
  time[0] = (1 << 3) | 1
  time.writeDoubleLE(atMs / 1000, 1)
  return Buffer.concat([time, ...fields])
}

function text(field: number, value: string): Buffer {
  return message(field, [Buffer.from(value)])
}

function message(field: number, parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.of((field << 3) | 2), digits(body.length), body])
}

function varint(field: number, value: number): Buffer {
  return Buffer.concat([Buffer.of(field << 3), digits(value)])
}

function float(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(5)
  bytes[0] = (field << 3) | 5
  bytes.writeFloatLE(value, 1)
  return bytes
}

/** Encodes an integer ≥ 0 in base 128, least significant digit first. */
function digits(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  bytes.push(rest)
  return Buffer.from(bytes)
}
