import { open } from 'node:fs/promises'
import { errnoOf } from '../../../platform/files.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { FailureCode } from '../../../contracts/failure-codes.ts'

/** The fields of a progress.jsonl line that the pipeline reads. */
export interface TrainerProgress {
  seq: number
  fence: number
  event: string
  phase: string
  /** When the trainer last did something other than send a heartbeat, ms since 1970. */
  lastProgressMs: number
  globalStep: number | null
  loss: number | null
}

/** Reads the lines appended since the last call. An incomplete last line is read later, and an invalid line is skipped. */
export function tailProgress(path: string): () => Promise<TrainerProgress[]> {
  let offset = 0
  let rest = ''
  return async () => {
    const text = await readFrom(path, offset)
    offset += text.byteLength
    const lines = (rest + text.toString('utf8')).split('\n')
    rest = lines.pop() ?? ''
    return lines.flatMap(parseLine)
  }
}

async function readFrom(path: string, offset: number): Promise<Buffer> {
  try {
    const file = await open(path, 'r')
    try {
      const { size } = await file.stat()
      const buffer = Buffer.alloc(Math.max(0, size - offset))
      const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, offset)
      return buffer.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}

function parseLine(line: string): TrainerProgress[] {
  let value: Record<string, unknown>
  try {
    value = JSON.parse(line) as Record<string, unknown>
  } catch {
    return []
  }
  const { seq, fence, event, phase, t, last_progress_t: last, global_step: step, loss } = value
  if (typeof seq !== 'number' || typeof event !== 'string' || typeof t !== 'number') return []
  return [
    {
      seq,
      event,
      fence: Number(fence),
      phase: String(phase),
      lastProgressMs: typeof last === 'number' ? last : t,
      globalStep: typeof step === 'number' ? step : null,
      loss: typeof loss === 'number' ? loss : null,
    },
  ]
}

/** How an attempt ended. A null code means that it was killed or left no report. */
export interface AttemptEnd {
  code: number | null
  message: string
  /** Why the pipeline ended the attempt; otherwise the code tells what happened. */
  failure?: FailureCode
}

/** Another launcher holds a newer fence. Nothing failed, and the caller looks again. */
export const FENCED = 76
/** The trainer stopped on request. */
export const STOPPED = 75

/** Maps the trainer's exit codes to failure codes. Every other end, including by a signal, counts as infrastructure and is retried. */
const CODES: Readonly<Record<number, FailureCode>> = {
  64: 'Trainer.BadSpec',
  65: 'Trainer.BatchRefused',
  66: 'Trainer.InputMissing',
  69: 'Trainer.Unavailable',
  70: 'Trainer.Failed',
  73: 'Trainer.OutputFailed',
  74: 'Trainer.OutputFailed',
  [STOPPED]: 'Trainer.Stopped',
  77: 'Trainer.Diverged',
  78: 'Trainer.OutOfMemory',
}

export function failureOf(
  { code, message, failure }: AttemptEnd,
  details: Record<string, string | number>,
): LonghaulError {
  return new LonghaulError({
    code: failure ?? (code === null ? undefined : CODES[code]) ?? 'Trainer.Failed',
    message: `Expected the training job to finish: ${message}`,
    details: { ...details, exit: code ?? 'none' },
  })
}
