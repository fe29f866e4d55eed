import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { runCommand } from '../../platform/run-command.ts'
import type { PublishedFile } from './policy-files.ts'

export interface ReadAdapterFilesInput {
  /** Sealed directories on this machine. */
  checkpoint: string
  /** SHA-256 of the checkpoint's manifest; null if no record states it. */
  checkpointSha256: string | null
  base: string
  /** The model and revision under which others find the base. */
  origin: { model: string; revision: string }
  /** The directory to create. The caller removes it. */
  target: string
  /** A Python interpreter with the trainer's packages, and the environment it needs to import the trainer. */
  python: string
  environment: NodeJS.ProcessEnv
  signal: AbortSignal
}

/** The trainer compares every tensor of the base, read from disk. */
const TIMEOUT_MS = 4 * 60 * 60_000

/**
 * Returns the adapters of a checkpoint in PEFT's layout.
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

/** Maps the exit codes of `trainer/longhaul_trainer/failures.py`. */
function refusal(exitCode: number | null, tail: string): LonghaulError {
  const [, message] = /^(?:input-unusable|output-unwritable|io-error): (.*)/m.exec(tail) ?? []
  return new LonghaulError({
    code: message === undefined ? 'Trainer.Failed' : exitCode === 66 ? 'Config.Invalid' : 'Artifact.Unavailable',
    message:
      message ?? `Expected the trainer to read the adapters, but it exited with ${exitCode}: ${tail.slice(-2000)}`,
  })
}
