import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { runCommand } from '../../platform/run-command.ts'
import type { PublishedFile } from './policy-files.ts'

export interface ReadAdapterFilesInput {
  /** Sealed directories of this machine. */
  checkpoint: string
  /** SHA-256 of its manifest; null where no record tells. */
  checkpointSha256: string | null
  base: string
  /** Where others have the base. */
  origin: { model: string; revision: string }
  /** A directory to make, which the caller removes. */
  target: string
  /** An interpreter with the trainer's packages, and what it needs to find the trainer. */
  python: string
  environment: NodeJS.ProcessEnv
  signal: AbortSignal
}

/** Every tensor of the base is compared, from a disk. */
const TIMEOUT_MS = 4 * 60 * 60_000

/**
 * The adapters of a checkpoint in PEFT's layout.
 * @throws LonghaulError `Config.Invalid` for a checkpoint without adapters of this base, `Artifact.Unavailable`, `Trainer.Failed`
 */
export async function readAdapterFiles(input: ReadAdapterFilesInput): Promise<PublishedFile[]> {
  const { checkpoint, checkpointSha256, base, origin, target, python, environment, signal } = input
  const { exitCode, stdout, tail } = await runCommand({
    command: python,
    args: [
      '-m',
      'longhaul_trainer',
      'adapter',
      checkpoint,
      base,
      target,
      '--base-name',
      origin.model,
      '--base-revision',
      origin.revision,
      ...(checkpointSha256 === null ? [] : ['--expect-sha256', checkpointSha256]),
    ],
    env: environment,
    timeoutMs: TIMEOUT_MS,
    signal,
  })
  if (exitCode !== 0) throw refusal(exitCode, tail)
  const hashes = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, string>
  return Promise.all(
    Object.entries(hashes).map(async ([path, sha256]) => {
      const file = join(target, path)
      return { path, bytes: (await stat(file)).size, sha256, content: { file } }
    }),
  )
}

/** Exit codes of `trainer/longhaul_trainer/failures.py`. */
function refusal(exitCode: number | null, tail: string): LonghaulError {
  const [, message] = /^(?:input-unusable|output-unwritable|io-error): (.*)/m.exec(tail) ?? []
  return new LonghaulError({
    code: message === undefined ? 'Trainer.Failed' : exitCode === 66 ? 'Config.Invalid' : 'Artifact.Unavailable',
    message: message ?? `Expected the trainer to read the adapters, it ended with ${exitCode}: ${tail.slice(-2000)}`,
  })
}
