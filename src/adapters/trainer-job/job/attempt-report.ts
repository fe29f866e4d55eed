import { open } from 'node:fs/promises'
import { errnoOf } from '../../../platform/files.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { FailureCode } from '../../../contracts/failure-codes.ts'

/** One line of progress.jsonl, as far as the pipeline reads it. */
export interface TrainerProgress {
  seq: number
  fence: number
  event: string
  phase: string
  /** ms since 1970 at which the trainer last did something other than beat. */
  lastProgressMs: number
  globalStep: number | null
  loss: number | null
}

/** Reads what was appended since the last call; a torn last line waits for its end, a broken one is skipped. */
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

/** How an attempt ended. A null code: killed, or gone without a report. */
export interface AttemptEnd {
  code: number | null
  message: string
  /** What we ended it for; without it the code says what happened. */
  failure?: FailureCode
}

/** Another launcher's attempt is the newer one: nothing failed, the caller looks again. */
export const FENCED = 76
/** It was told to stop and did. */
export const STOPPED = 75

/** The trainer's exit codes in the pipeline's words; anything else, signals too, is infrastructure and is tried again. */
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
