import type { SynthesizedTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { buildTaskImage, imageExists } from '../../src/adapters/docker/images.ts'
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
  if (!(await imageExists({ engine, image: normalized.image }))) {
    const repoTar = await task.repoTar()
    await buildTaskImage({ engine, base: lanes.base, tag: normalized.image, repoTar, labels: {} })
  }
  const run = `grade-${process.pid}`
  const ran = await lanes.host.grade(
    {
      run,
      episode: `${run}/${normalized.taskId}`,
      owner: run,
      role: 'grader',
      image: normalized.image,
      repoDir: normalized.repoDir,
      patch: Buffer.from(patch),
      applyCommands: forkProfile.applyCommands,
      evalScript: forkProfile.evalScript(normalized),
      timeoutMs: TIMEOUT_MS,
      limits: { cpus: 1, memoryMiB: 512, pids: 128 },
      leaseMs: TIMEOUT_MS,
    },
    signal,
  )
  await engine.docker.getImage(normalized.image).remove({ force: true })
  return judgeRun(normalized, ran).kind === 'resolved'
}
