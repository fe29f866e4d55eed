import { LonghaulError } from '../../../contracts/errors.ts'
import type { FailureCode } from '../../../contracts/failure-codes.ts'

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
