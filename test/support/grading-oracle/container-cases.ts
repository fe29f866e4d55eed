/** The same predictions graded in containers by Longhaul and by an official harness. */
import { type Graded, runGrading } from '../../../src/activities/grading/run-grading.ts'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import { readLog } from '../../../src/adapters/artifacts/stored-log.ts'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { createDockerSandboxHost } from '../../../src/adapters/docker/sandbox/sandbox-host.ts'
import { createSlots } from '../../../src/platform/limiter.ts'
import type { LayoutTask } from '../layouts/layout-tasks.ts'
import { type PatchKind, patchOf } from '../layouts/patches.ts'

export interface ContainerCase {
  task: LayoutTask
  kind: PatchKind
  patch: string
}

export interface GradedCase extends ContainerCase {
  /** Null if the patch is empty, because it never runs. */
  graded: Graded | null
  log: Uint8Array
}

/** Runs with one kind of patch each, in the form of the harnesses: one prediction per task. */
export interface ContainerRun {
  kind: PatchKind
  cases: ContainerCase[]
  /** Time limit of the tests; upstream counts in whole seconds. */
  timeoutS: number
}

/** Only the slow patch has a short limit, because the machine may be slow. */
export function containerRuns(tasks: readonly LayoutTask[], kinds: readonly PatchKind[]): ContainerRun[] {
  return kinds.map((kind) => ({
    kind,
    cases: tasks.map((task) => ({ task, kind, patch: patchOf(kind, task) })),
    timeoutS: kind === 'slow' ? 5 : 1800,
  }))
}

export interface GradeCasesInput {
  engine: Engine
  runs: readonly ContainerRun[]
  /** Folder for logs; must exist. */
  folder: string
  /** Concurrent containers. */
  workers: number
}

/** Grades with Longhaul, in the same way as every episode. */
export async function gradeCases({ engine, runs, folder, workers }: GradeCasesInput): Promise<GradedCase[]> {
  const store = createDirectoryStore({ root: folder })
  const host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'sandbox.test' })
  const slots = createSlots(workers)
  const grade = async ({ task, kind, patch }: ContainerCase, timeoutS: number): Promise<GradedCase> => {
    if (patch === '') return { task, kind, patch, graded: null, log: new Uint8Array() }
    const logKey = `logs/${kind}/${task.task.taskId}.txt`
    const graded = await runGrading(
      { store, sandbox: host, ensureImage: async () => undefined },
      {
        run: `compare-${process.pid}`,
        episode: `compare/${kind}/${task.task.taskId}`,
        owner: 'test',
        role: 'grader',
        limits: { cpus: 2, memoryMiB: 1024, pids: 256 },
        patch: Buffer.from(patch),
        task: task.task,
        logKey,
        testTimeoutMs: timeoutS * 1000,
      },
      AbortSignal.timeout(1_800_000),
    )
    return { task, kind, patch, graded, log: Buffer.from((await readLog(store, logKey)) ?? '') }
  }
  try {
    return await Promise.all(
      runs.flatMap(({ cases, timeoutS }) => cases.map((one) => slots.use(() => grade(one, timeoutS)))),
    )
  } finally {
    host.dispose()
  }
}
