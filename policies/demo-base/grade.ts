import { randomBytes } from 'node:crypto'
import type { SynthesizedTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { buildTaskImage } from '../../src/adapters/docker/images/images.ts'
import type { Task } from '../../src/contracts/tasks.types.ts'
import { forkProfile } from '../../src/grading/profiles/fork-4.0.3.ts'
import { judgeRun } from '../../src/grading/verdict.ts'
import type { Lanes } from './lanes.ts'

export interface GradeInput {
  lanes: Lanes
  task: SynthesizedTask
  normalized: Task
  patch: string
  signal: AbortSignal
}

const TIMEOUT_MS = 120_000

/** Hidden tests in a fresh container, skipped only where the answer is known: the gold patch resolves, none does not. */
export async function gradePatch({ lanes, task, normalized, patch, signal }: GradeInput): Promise<boolean> {
  if (patch === '') return false
  if (patch === task.row.patch) return true
  const { engine } = lanes.host.context
  // A tag of its own: a run on the same engine may be using the task's image.
  const image = `longhaul/demonstrations:${randomBytes(8).toString('hex')}`
  await buildTaskImage({ engine, base: lanes.base, tag: image, repoTar: await task.repoTar(), labels: {} })
  const run = `grade-${process.pid}`
  const { applyCommands, evalScript } = forkProfile.plan(normalized, { hasPatch: true })
  const ran = await lanes.host.grade(
    {
      run,
      episode: image,
      owner: run,
      role: 'grader',
      image,
      repoDir: normalized.repoDir,
      patch: Buffer.from(patch),
      applyCommands,
      evalScript,
      timeoutMs: TIMEOUT_MS,
      limits: { cpus: 1, memoryMiB: 512, pids: 128 },
      leaseMs: TIMEOUT_MS,
    },
    signal,
  )
  await engine.docker.getImage(image).remove({ force: true })
  return judgeRun(normalized, ran).kind === 'resolved'
}
