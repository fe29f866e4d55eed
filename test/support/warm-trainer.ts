import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { attemptDirectory, specPath, writeHandle } from '../../src/adapters/trainer-job/job/attempt-files.ts'
import type { Launcher } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import { createProcessLauncher } from '../../src/adapters/trainer-job/launchers/process-launcher.ts'
import { identifyOnHost } from '../../src/platform/processes.ts'
import { python, pythonEnvironment } from './python.ts'

export interface WarmTrainer {
  /** Like the one for processes, but a job begins as a fork of a process that has imported everything. One rank only. */
  launcher: Launcher
  /** Jobs that run go on. */
  close(): Promise<void>
}

/**
 * For tests of what jobs compute, and of attempts after the one that a test strikes: see `trainer/tests/warm_trainer.py`. It starts with
 * its first job.
 */
export function createWarmTrainer(): WarmTrainer {
  let started: ReturnType<typeof start> | null = null
  return {
    launcher: {
      ...createProcessLauncher({ python: python ?? '' }),
      async launch(attempt) {
        const { job, fence } = attempt
        const { nodes, ranksPerNode } = job.layout
        if (nodes * ranksPerNode !== 1) throw new Error('Several ranks are started by torchrun')
        const directory = attemptDirectory(job.jobDirectory, fence)
        await mkdir(directory, { recursive: true })
        started ??= start()
        const pid = await started.fork({ spec: specPath(job.jobDirectory, fence), directory })
        await writeHandle(attempt, identifyOnHost(pid))
      },
    },
    close: async () => started?.close(),
  }
}

function start() {
  const child = spawn(python ?? '', ['-m', 'warm_trainer'], {
    env: pythonEnvironment,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async fork(job: { spec: string; directory: string }): Promise<number> {
      child.stdin.write(`${JSON.stringify(job)}\n`)
      const answer = await answers.next()
      if (answer.done === true) throw new Error('The warm trainer has ended')
      return (JSON.parse(answer.value) as { pid: number }).pid
    },
    async close(): Promise<void> {
      child.stdin.end()
      await ended
    },
  }
}
