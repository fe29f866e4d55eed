import { tmpdir } from 'node:os'
import { LonghaulError } from '../../contracts/errors.ts'
import type { BuildStage } from '../../contracts/task-images.types.ts'

interface BuildFailureInput {
  stage: BuildStage
  /** What was expected, what happened, and how to fix it. */
  message: string
  details?: Record<string, string | number>
  cause?: unknown
}

/** Creates the error of a failed build. It names the stage, which users look for first. */
export function buildFailure({ stage, message, details = {}, cause }: BuildFailureInput): LonghaulError {
  return new LonghaulError({ code: 'Image.BuildFailed', message, details: { stage, ...details }, cause })
}

/** Matches the messages of programs, their libraries, Git, Node and the engine. */
const FULL = /no space left on device|out of disk ?space|disk quota exceeded|\b(ENOSPC|EDQUOT)\b|\[Errno (28|122)\]/i

export function saysDiskFull(said: string): boolean {
  return FULL.test(said)
}

interface DiskFullInput {
  stage: BuildStage
  /** The error's text, of any number of lines. */
  said: string
  /** The full disk: the engine's own, or that of this host's directory for temporary files. */
  of: 'engine' | 'host'
  log?: string
  cause?: unknown
}

/** The error for a full disk. Neither the task nor its environment is the cause, and a retry would not help. */
export function diskFull({ stage, said, of, log, cause }: DiskFullInput): LonghaulError {
  const line = said.split('\n').find((text) => FULL.test(text)) ?? said
  const [where, fix] =
    of === 'engine'
      ? [
          'where the engine keeps images',
          'Free space there: docker system df shows what is used, docker image rm frees it',
        ]
      : [`of this host's temporary files`, `Free space in ${tmpdir()}, or name another directory in TMPDIR`]
  return buildFailure({
    stage,
    message: `The disk ${where} is full: ${line.trim().slice(0, 300)}. ${fix}. Then run the command again: layers that were made are kept`,
    details: { disk: 'full', ...(log === undefined ? {} : { log }) },
    cause,
  })
}
