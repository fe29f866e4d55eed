import { createHash } from 'node:crypto'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { GradeRunInput, GradeRunResult, SandboxHost } from '../../contracts/sandbox.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { forkProfile } from '../../grading/profiles/fork-4.0.3.ts'
import type { EnsureImage } from './open-sandbox.ts'

/** The harness's own limit on the tests. */
const TEST_TIMEOUT_MS = 1_800_000

export interface GradingDependencies {
  store: ArtifactStore
  sandbox: SandboxHost
  ensureImage: EnsureImage
}

export type Graded = Omit<VerdictRecord, 'schema' | 'episode'>

/** One patch in a fresh container: run the profile's script, read the log, decide. The log is kept at `logKey`. */
export async function runGrading(
  deps: GradingDependencies,
  input: Pick<GradeRunInput, 'run' | 'episode' | 'owner' | 'role' | 'limits' | 'patch'> & {
    task: Task
    logKey: string
  },
  signal: AbortSignal,
): Promise<Graded> {
  const { task, patch, run, episode, owner, role, limits } = input
  await deps.ensureImage(task, signal)
  const ran = await deps.sandbox.grade(
    {
      run,
      episode,
      owner,
      role,
      limits,
      patch,
      image: task.image,
      repoDir: task.repoDir,
      applyCommands: forkProfile.applyCommands,
      evalScript: forkProfile.evalScript(task),
      timeoutMs: TEST_TIMEOUT_MS,
      leaseMs: TEST_TIMEOUT_MS + 5 * 60_000,
    },
    signal,
  )
  await keepLog(deps.store, input.logKey, ran)
  const verdict = forkProfile.judge({ task, ran })
  return {
    ...verdict,
    taskId: task.taskId,
    profile: forkProfile.name,
    from: 'container',
    patchSha256: createHash('sha256').update(patch).digest('hex'),
    gradeMs: ran.wallMs,
    image: ran.imageDigest,
  }
}

/** Logs hold times, so a repeated grading writes other bytes: the first log stays, as the first verdict does. */
async function keepLog(store: ArtifactStore, key: string, ran: GradeRunResult): Promise<void> {
  try {
    await store.put(key, ran.log)
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Conflict') return
    throw error
  }
}
