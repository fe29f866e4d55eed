import { tmpdir } from 'node:os'
import { LonghaulError } from '../../contracts/errors.ts'
import type { BuildStage } from '../../contracts/task-images.types.ts'

interface BuildFailureInput {
  stage: BuildStage
  /** What was expected and what came, and how to fix it. */
  message: string
  details?: Record<string, string | number>
  cause?: unknown
}

/** The one error of a build; its stage is what a user looks for first. */
export function buildFailure({ stage, message, details = {}, cause }: BuildFailureInput): LonghaulError {
  return new LonghaulError({ code: 'Image.BuildFailed', message, details: { stage, ...details }, cause })
}

/** As programs, their libraries, Git, Node and the engine say it. */
const FULL = /no space left on device|out of disk ?space|disk quota exceeded|\b(ENOSPC|EDQUOT)\b|\[Errno (28|122)\]/i

export function saysDiskFull(said: string): boolean {
  return FULL.test(said)
}

interface DiskFullInput {
  stage: BuildStage
  /** What reported it, of any number of lines. */
  said: string
  /** The engine's own disk, or this host's directory for what goes into it. */
  of: 'engine' | 'host'
  log?: string
  cause?: unknown
}

/** Neither the task nor its environment is the cause, and another attempt would not help. */
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
