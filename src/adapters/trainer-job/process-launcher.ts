import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, open } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { attemptDirectory, specPath } from './attempt-files.ts'
import type { PreparedJob } from './job-spec.ts'
import { bootId, type ProcessIdentity, startTimeOf } from './process-identity.ts'

export interface TrainerCommand {
  /** Python interpreter of the trainer's environment. */
  python: string
  /** Added to the launcher's own environment; PYTHONPATH when the package is not installed there. */
  env?: Record<string, string>
}

export interface LaunchedProcess {
  identity: ProcessIdentity
  /** Status of the process; null code when a signal ended it. */
  ended: Promise<{ code: number | null; signal: string | null }>
}

/**
 * Starts one attempt in its own session, so that neither a worker's restart nor its death ends it; the caller has claimed the
 * fence. Output goes to a file for the same reason.
 * @throws LonghaulError `Trainer.Unavailable` when the interpreter cannot be started
 */
export async function launchTrainer(
  { python, env = {} }: TrainerCommand,
  { jobId, jobDirectory }: PreparedJob,
  fence: number,
): Promise<LaunchedProcess> {
  const directory = attemptDirectory(jobDirectory, fence)
  await mkdir(directory, { recursive: true })
  const output = await open(join(directory, 'stdout.log'), 'a')
  try {
    const child = spawn(python, ['-m', 'longhaul_trainer', 'step', '--spec', specPath(jobDirectory, fence)], {
      cwd: directory,
      detached: true,
      stdio: ['ignore', output.fd, output.fd],
      env: { ...process.env, OMP_WAIT_POLICY: 'PASSIVE', ...env, LONGHAUL_LAUNCHER_HANDLE: jobId },
    })
    const ended = statusOf(child)
    const pid = await startedPid(child, python)
    child.unref()
    return { ended, identity: { host: hostname(), bootId: bootId(), pid, pidStart: await startTimeOf(pid) } }
  } finally {
    await output.close()
  }
}

function statusOf(child: ChildProcess): LaunchedProcess['ended'] {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
    child.once('error', () => resolve({ code: null, signal: null }))
  })
}

function startedPid(child: ChildProcess, python: string): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('spawn', () => resolve(child.pid ?? 0))
    child.once('error', (cause) =>
      reject(
        new LonghaulError({
          code: 'Trainer.Unavailable',
          message: 'Expected to start the trainer’s Python',
          details: { python },
          cause,
        }),
      ),
    )
  })
}
