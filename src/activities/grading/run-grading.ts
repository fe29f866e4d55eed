import { keepLog } from '../../adapters/artifacts/stored-log.ts'
import { parse, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { AuditVerdict } from '../../contracts/audit.types.ts'
import type { GradingProvenance, VerdictRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { type HackSign, sortSigns } from '../../contracts/hack-signs.ts'
import type { GradeRunInput, GradeRunResult, SandboxHost } from '../../contracts/sandbox.types.ts'
import type { Task, GradingProfile } from '../../contracts/tasks.types.ts'
import type { PlannedAudit } from '../../grading/audit/plan-audit.ts'
import type { HarnessScript } from '../../grading/profiles/run-profile.ts'
import { RUN_PROFILES } from '../../grading/profiles/run-profiles.ts'
import { assetPath } from '../../grading/profiles/swebench-5.ts'
import { judgeOverrun, type Verdict } from '../../grading/verdict.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { EnsureImage } from '../episode/open-sandbox.ts'
import { hasParser } from '../../grading/log-profiles.ts'
import { fetchPinnedFiles } from './pin-files.ts'

/** The harnesses' own limit on the tests; SWE-rebench-V2 has none. */
export const TEST_TIMEOUT_MS = 1_800_000

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
  /** Name under which the log is stored. */
  logKey: string
  /** @default the harness's own 30 minutes */
  testTimeoutMs?: number
  /** Whether Longhaul captured the patch. A patch from elsewhere may differ from Git's format.
   *  @default true */
  isCaptured?: boolean
  /** Set if the caller decides about tests over their limit. They then run once, and their log is stored here. @default they run twice */
  timeOut?: { logKey: string }
}

/**
 * Grades one patch in a fresh container: runs the profile's script, reads the log and decides. A result that the machine may have
 * caused (no results, a time-out, a broken log) is repeated once, and then counts.
 */
export async function runGrading(
  deps: GradingDependencies,
  input: RunGradingInput,
  signal: AbortSignal,
): Promise<Graded> {
  const { task, patch, testTimeoutMs = TEST_TIMEOUT_MS } = input
  await deps.ensureImage(task, signal)
  const plan = await planRun(deps, input, signal)
  const audit =
    patch.byteLength === 0
      ? null
      : await unlessOverrun(() => parse('planAudit', { task, patch, timeoutMs: testTimeoutMs }))
  const attempt = { ...input, testTimeoutMs, plan, audit }
  let { ran, verdict } = await gradeOnce(deps, attempt, signal)
  if (verdict.mayRepeat && !isForCaller(ran, input)) ({ ran, verdict } = await gradeOnce(deps, attempt, signal))
  const log = storedLog(task, ran, testTimeoutMs)
  await keepLog(deps.store, isForCaller(ran, input) ? input.timeOut.logKey : input.logKey, log)
  const isRead = audit !== null || patch.byteLength === 0
  const seen = isRead ? await unlessOverrun(() => lookAt(input, ran, audit)) : null
  const { kind, reason, failToPass, passToPass, subset } = seen === null ? judgeOverrun(task) : verdict
  return {
    taskId: task.taskId,
    kind,
    reason,
    profile: task.gradingProfile,
    from: 'container',
    patchSha256: sha256Hex(patch),
    failToPass,
    passToPass,
    gradeMs: ran.wallMs,
    image: ran.imageDigest,
    signs: seen?.signs ?? [],
    ...(subset === null ? {} : { subset }),
    provenance: provenanceOf({ task, ran, log, testTimeoutMs }),
    ...(seen?.audit === undefined ? {} : { audit: seen.audit }),
  }
}

/** What patch, log and audit tell beside the verdict. */
async function lookAt(
  { task, patch, isCaptured = true }: RunGradingInput,
  ran: GradeRunResult,
  audit: PlannedAudit | null,
): Promise<{ signs: HackSign[]; audit?: AuditVerdict }> {
  const isInconsistent = ran.kind === 'ran' && (await parse('isInconsistentLog', ran.log))
  const signs = sortSigns([
    ...(await parse('patchSigns', { patch, goldPatch: task.goldPatch })),
    ...(isInconsistent ? (['inconsistent-log'] as const) : []),
  ])
  if (audit === null || ran.audit === undefined) return { signs }
  const judged = await parse('judgeAudit', { task, patch, planned: audit, run: ran.audit, isCaptured })
  return { signs, audit: judged }
}

/** Returns null if the agent's text takes more time or memory to parse than honest text. */
async function unlessOverrun<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof ParserOverrun) return null
    throw error
  }
}

/** Returns whether the caller decides about these tests. */
function isForCaller(
  { kind }: GradeRunResult,
  input: RunGradingInput,
): input is RunGradingInput & Required<Pick<RunGradingInput, 'timeOut'>> {
  return kind === 'timed-out' && input.timeOut !== undefined
}

/** The script of the row's harness, with the files that the row references. */
async function planRun(
  { store }: GradingDependencies,
  { task, patch }: RunGradingInput,
  signal: AbortSignal,
): Promise<Omit<HarnessScript, 'files'> & { files: Record<string, string | Uint8Array> }> {
  const found = await fetchPinnedFiles(store, task, signal)
  const plan = RUN_PROFILES[task.gradingProfile].plan(task, { hasPatch: patch.byteLength > 0, assets: found })
  const staged = found.map(({ path, bytes }) => [assetPath(path), bytes] as const)
  return { ...plan, files: { ...plan.files, ...Object.fromEntries(staged) } }
}

async function gradeOnce(
  deps: GradingDependencies,
  {
    task,
    run,
    episode,
    owner,
    ownerRun,
    expectedDigest,
    role,
    limits,
    patch,
    plan,
    audit,
    testTimeoutMs,
  }: RunGradingInput & {
    plan: Awaited<ReturnType<typeof planRun>>
    audit: PlannedAudit | null
    testTimeoutMs: number
  },
  signal: AbortSignal,
): Promise<{ ran: GradeRunResult; verdict: Verdict }> {
  const { resetCommand, lastCheck, ...rest } = plan
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
      ...rest,
      ...(resetCommand === null ? {} : { resetCommand }),
      ...(lastCheck === null ? {} : { lastCheck }),
      ...(audit === null ? {} : { audit: audit.plan }),
      timeoutMs: testTimeoutMs,
      leaseMs: (audit === null ? 1 : 2) * testTimeoutMs + 5 * 60_000,
    },
    signal,
  )
  const { kind, log } = ran
  return { ran, verdict: (await unlessOverrun(() => parse('judgeRun', task, { kind, log }))) ?? judgeOverrun(task) }
}

/** Formats the log as upstream does, which adds a line at the end if the tests were killed. */
function storedLog(task: Task, ran: GradeRunResult, testTimeoutMs: number): Uint8Array {
  if (ran.kind !== 'timed-out' || task.gradingProfile === 'rebench-v2') return ran.log
  const note = `\n\nTimeout error: ${Math.ceil(testTimeoutMs / 1000)} seconds exceeded.`
  return Buffer.concat([ran.log, Buffer.from(note)])
}

function provenanceOf({
  task,
  ran,
  log,
  testTimeoutMs,
}: {
  task: Task
  ran: GradeRunResult
  log: Uint8Array
  testTimeoutMs: number
}): GradingProvenance {
  const { upstream, revision } = RUN_PROFILES[task.gradingProfile]
  return {
    upstream,
    profileRevision: revision,
    rowHash: task.rowHash,
    imageReference: task.image,
    machine: ran.machine,
    testTimeoutMs,
    exitCode: ran.kind === 'timed-out' ? null : ran.exitCode,
    logSha256: sha256Hex(log),
    // Upstream's containers have a network, and version 5 also grants the permissions that browsers need.
    deviations: [
      'no-network',
      ...(task.gradingProfile === 'swebench-5' ? ['no-sys-admin'] : []),
      ...(task.deviations ?? []),
    ],
  }
}

/** The script that the task's harness runs, with every file that its row references. */
export function evalScriptOf(task: Task): string {
  const assets = task.harness?.assets ?? []
  return RUN_PROFILES[task.gradingProfile].plan(task, { hasPatch: true, assets }).evalScript
}

/**
 * Returns the profile that a task is graded with: its own, or another that can run it.
 * @throws LonghaulError `Config.Invalid` if the task's row lacks what that harness reads
 */
export function profileFor(task: Task, asked: GradingProfile | null): GradingProfile {
  if (asked === null || asked === task.gradingProfile) return task.gradingProfile
  const fault = faultOf(task, asked)
  if (fault === null) return asked
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected tasks that ${asked} can grade, but it cannot grade ${task.taskId}, a row of ${task.gradingProfile}: ${fault}`,
    details: { task: task.taskId, profile: asked },
  })
}

function faultOf(task: Task, profile: GradingProfile): string | null {
  const { logParser } = task.installConfig
  if (!hasParser(profile, logParser)) return `it has no parser ${JSON.stringify(logParser)}`
  try {
    evalScriptOf({ ...task, gradingProfile: profile })
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
