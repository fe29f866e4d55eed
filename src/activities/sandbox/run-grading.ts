import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { sortSigns } from '../../contracts/hack-signs.ts'
import type { GradeRunInput, GradeRunResult, SandboxHost } from '../../contracts/sandbox.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { forkProfile } from '../../grading/profiles/fork-4.0.3.ts'
import { isInconsistentLog } from '../../grading/log-signs.ts'
import { patchSigns } from '../../grading/patch-signs.ts'
import { judgeRun, type Verdict } from '../../grading/verdict.ts'
import { sha256Hex } from '../hash.ts'
import type { EnsureImage } from './open-sandbox.ts'

/** The harness's own limit on the tests. */
const TEST_TIMEOUT_MS = 1_800_000

export interface GradingDependencies {
  store: ArtifactStore
  sandbox: SandboxHost
  ensureImage: EnsureImage
}

export type Graded = Omit<VerdictRecord, 'schema' | 'episode'>

export interface RunGradingInput
  extends Pick<
    GradeRunInput,
    'run' | 'episode' | 'owner' | 'ownerRun' | 'role' | 'limits' | 'patch' | 'expectedDigest'
  > {
  task: Task
  /** Where the log is kept. */
  logKey: string
}

/**
 * One patch in a fresh container: run the profile's script, read the log, decide. What may have been an accident of the
 * machine (no results, a time-out, a broken log) is run once more, and then stands.
 */
export async function runGrading(
  deps: GradingDependencies,
  input: RunGradingInput,
  signal: AbortSignal,
): Promise<Graded> {
  await deps.ensureImage(input.task, signal)
  let { ran, verdict } = await gradeOnce(deps, input, signal)
  if (verdict.mayRepeat) ({ ran, verdict } = await gradeOnce(deps, input, signal))
  await keepLog(deps.store, input.logKey, ran)
  const { kind, reason, failToPass, passToPass } = verdict
  return {
    taskId: input.task.taskId,
    kind,
    reason,
    profile: input.task.gradingProfile,
    from: 'container',
    patchSha256: sha256Hex(input.patch),
    failToPass,
    passToPass,
    gradeMs: ran.wallMs,
    image: ran.imageDigest,
    signs: sortSigns([
      ...patchSigns({ patch: input.patch, goldPatch: input.task.goldPatch }),
      ...(ran.kind === 'ran' && isInconsistentLog(ran.log) ? (['inconsistent-log'] as const) : []),
    ]),
  }
}

async function gradeOnce(
  deps: GradingDependencies,
  { task, run, episode, owner, ownerRun, expectedDigest, role, limits, patch }: RunGradingInput,
  signal: AbortSignal,
): Promise<{ ran: GradeRunResult; verdict: Verdict }> {
  const ran = await deps.sandbox.grade(
    {
      run,
      episode,
      owner,
      ...(ownerRun === undefined ? {} : { ownerRun }),
      ...(expectedDigest === undefined ? {} : { expectedDigest }),
      role,
      limits,
      patch,
      image: task.image,
      repoDir: task.repoDir,
      applyCommands: patch.length === 0 ? [] : forkProfile.applyCommands,
      evalScript: forkProfile.evalScript(task),
      timeoutMs: TEST_TIMEOUT_MS,
      leaseMs: TEST_TIMEOUT_MS + 5 * 60_000,
    },
    signal,
  )
  return { ran, verdict: judgeRun(task, ran) }
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
