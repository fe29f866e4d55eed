import { type ChildProcess, spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../../../contracts/errors.ts'
import { attemptDirectory, leaseHolder, readHandle, writeHandle } from '../job/attempt-files.ts'
import { trainerArguments, trainerEnvironment } from './launch-command.ts'
import type { Attempt, Launcher } from './launcher.types.ts'
import { traceVariables } from '../../../platform/current-trace.ts'
import { type HostProcess, identifyOnHost, livenessOf, stopSession } from '../../../platform/processes.ts'
import { makeDirectory } from '../../../platform/files.ts'

export interface TrainerCommand {
  /** Python interpreter of the trainer's environment. */
  python: string
  /** Variables that every job gets. Contains PYTHONPATH if the package is not installed there. */
  env?: Record<string, string>
}

interface ProcessEnd {
  code: number | null
  signal: string | null
}

/** Bounds the wait for a claimed fence without a process: the launcher died in between, or the interpreter is still starting. */
const START_WAIT_MS = 15_000

/** Runs a process on this machine, under torchrun if the job has several ranks. */
export function createProcessLauncher(command: TrainerCommand): Launcher {
  /** Exit statuses of trainers that this process started. It cannot read those of another process's children. */
  const ends = new Map<string, Promise<ProcessEnd>>()
  return {
    isElsewhere: false,
    pollMs: 200,
    settleMs: 0,
    launchMs: START_WAIT_MS,
    async launch(attempt) {
      const { identity, ended } = await launchTrainer(command, attempt)
      ends.set(nameOf(attempt), ended)
      await writeHandle(attempt, identity)
    },
    async look(attempt) {
      const identity = await identityOf(attempt)
      if (identity === null) return { kind: 'absent', how: 'never started' }
      switch (livenessOf(identity)) {
        case 'alive':
          return { kind: 'alive' }
        case 'unknown':
          return { kind: 'unknown', host: identity.host }
        case 'dead':
          return { kind: 'over', ...describe(await ends.get(nameOf(attempt))) }
      }
    },
    async stop(attempt, graceMs) {
      const identity = await identityOf(attempt)
      if (identity === null) return true
      // Nothing here reaches a process of another host, so that it is not gone.
      return livenessOf(identity) !== 'unknown' && stopSession(identity, graceMs)
    },
  }
}

/** The handle names the parent, which is torchrun if it is used. The lease names the first rank and replaces a lost handle. */
async function identityOf(attempt: Attempt): Promise<HostProcess | null> {
  return (await readHandle<HostProcess>(attempt)) ?? leaseHolder(attempt.job.jobDirectory, attempt.fence)
}

function describe(end: ProcessEnd | undefined): { code: number | null; how: string } {
  if (end === undefined) return { code: null, how: 'gone' }
  return { code: end.code, how: end.signal === null ? `ended by status ${end.code}` : `ended by ${end.signal}` }
}

function nameOf({ job, fence }: Attempt): string {
  return `${job.jobDirectory} ${fence}`
}

/**
 * Starts one attempt in its own session, so that neither a restart nor the death of the worker ends it. For the same reason its output
 * goes to a file.
 */
async function launchTrainer(
  { python, env = {} }: TrainerCommand,
  attempt: Attempt,
): Promise<{ identity: HostProcess; ended: Promise<ProcessEnd> }> {
  const { job, fence } = attempt
  const directory = attemptDirectory(job.jobDirectory, fence)
  await makeDirectory(directory)
  const output = await open(join(directory, 'stdout.log'), 'a')
  try {
    const child = spawn(python, trainerArguments(attempt), {
      cwd: directory,
      detached: true,
      stdio: ['ignore', output.fd, output.fd],
      env: {
        ...trainerEnvironment(),
        OMP_WAIT_POLICY: 'PASSIVE',
        ...env,
        ...traceVariables(),
        LONGHAUL_LAUNCHER_HANDLE: job.jobId,
      },
    })
    const ended = statusOf(child)
    const pid = await startedPid(child, python)
    child.unref()
    return { ended, identity: identifyOnHost(pid) }
  } finally {
    await output.close()
  }
}

function statusOf(child: ChildProcess): Promise<ProcessEnd> {
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
          message: 'Expected the trainer’s Python to start',
          details: { python, refused: true },
          cause,
        }),
      ),
    )
  })
}
