import { mkdir } from 'node:fs/promises'
import { attemptDirectory, specPath, writeHandle } from '../../src/adapters/trainer-job/job/attempt-files.ts'
import type { Launcher } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import { createProcessLauncher } from '../../src/adapters/trainer-job/launchers/process-launcher.ts'
import { identifyOnHost } from '../../src/platform/processes.ts'
import { python } from './python.ts'
import { startWarmProcess, type WarmProcess } from './warm-process.ts'

export interface WarmTrainer {
  /** Like the process launcher, but a job is a fork of a process that has imported everything. One rank only. */
  launcher: Launcher
  /** Running jobs continue. */
  close(): Promise<void>
}

/**
 * For tests of jobs' computations, and of attempts after the one that a test strikes: see `trainer/tests/warm_trainer.py`. Starts
 * with its first job.
 */
export function createWarmTrainer(): WarmTrainer {
  let started: WarmProcess | null = null
  return {
    launcher: {
      ...createProcessLauncher({ python: python ?? '' }),
      async launch(attempt) {
        const { job, fence } = attempt
        const { nodes, ranksPerNode } = job.layout
        if (nodes * ranksPerNode !== 1) throw new Error('Several ranks are started by torchrun')
        const directory = attemptDirectory(job.jobDirectory, fence)
        await mkdir(directory, { recursive: true })
        started ??= startWarmProcess({ python: python ?? '', module: 'warm_trainer' })
        const answer = await started.ask({ spec: specPath(job.jobDirectory, fence), directory })
        const { pid } = JSON.parse(answer) as { pid: number }
        await writeHandle(attempt, identifyOnHost(pid))
      },
    },
    close: async () => started?.close(),
  }
}
