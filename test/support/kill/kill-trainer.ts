import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { attemptDirectory, leaseHolder } from '../../../src/adapters/trainer-job/job/attempt-files.ts'
import { livenessOf } from '../../../src/platform/processes.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../../src/contracts/keys.ts'
import type { TrainerKill } from './kill-plan.ts'

export interface TrainerKilled {
  stage: string
  /** Optimizer steps of the killed process, and of the whole job. */
  steps: number
  total: number
  /** False if the process had ended, or committed its output, shortly before. */
  isInside: boolean
}

/** A step of the demo's model takes some hundred milliseconds; the interval between two must not be missed. */
const POLL_MS = 5

/** Kills the first attempt of a training job with SIGKILL after some of its steps. */
export async function killTrainerAt(input: {
  kill: TrainerKill
  run: string
  store: ArtifactStore
  signal: AbortSignal
}): Promise<TrainerKilled> {
  const { kill, run, store, signal } = input
  const { stage, iteration } = kill
  const jobDirectory = store.path(runKeys.job(run, stage, iteration, 0))
  const batchKey = `${runKeys.batch(run, stage, iteration, 0)}/batch.json`
  for (;;) {
    const events = await progressOf(jobDirectory)
    const total = events.length === 0 ? 0 : await stepsOf(store, batchKey)
    const steps = events.filter(({ event }) => event === 'opt_step').length
    const wanted = Math.min(kill.afterSteps, total - 1)
    if (events.length > 0 && steps >= wanted) {
      await sleep(kill.delayMs, undefined, { signal })
      const wasAlive = await killHolder(jobDirectory)
      const last = await progressOf(jobDirectory)
      const isOver = last.some(({ event }) => event === 'committed' || event === 'done')
      const made = last.filter(({ event }) => event === 'opt_step').length
      return { stage, steps: made, total, isInside: wasAlive && !isOver }
    }
    await sleep(POLL_MS, undefined, { signal })
  }
}

async function killHolder(jobDirectory: string): Promise<boolean> {
  const holder = await leaseHolder(jobDirectory, 1)
  if (holder === null || livenessOf(holder) !== 'alive') return false
  process.kill(holder.pid, 'SIGKILL')
  return true
}

async function progressOf(jobDirectory: string): Promise<{ event: string }[]> {
  const text = await readFile(join(attemptDirectory(jobDirectory, 1), 'progress.jsonl'), 'utf8').catch(() => '')
  // The last line may be incomplete.
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as { event: string })
}

async function stepsOf(store: ArtifactStore, batchKey: string): Promise<number> {
  const bytes = await store.read(batchKey)
  const { minibatches } = JSON.parse(new TextDecoder().decode(bytes ?? undefined)) as { minibatches: unknown[] }
  return minibatches.length
}
