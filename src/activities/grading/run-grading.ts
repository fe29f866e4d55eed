import { keepLog } from '../../adapters/artifacts/stored-log.ts'
import { parse, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { AuditVerdict } from '../../contracts/audit.types.ts'
import type { GradingProvenance, VerdictRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { type HackSign, sortSigns } from '../../contracts/hack-signs.ts'
import type { GradedPatch, GradeRunInput, GradeRunResult, SandboxHost } from '../../contracts/sandbox.types.ts'
import type { Task, GradingProfile } from '../../contracts/tasks.types.ts'
import type { HarnessScript } from '../../grading/profiles/run-profile.ts'
import { RUN_PROFILES } from '../../grading/profiles/run-profiles.ts'
import { assetPath } from '../../grading/profiles/swebench-5.ts'
import { TESTBED } from '../../grading/profiles/testbed.ts'
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
 * caused (no results, a time-out, a broken log) is repeated once, and then counts. A patch that resolves its task is audited.
 */
export async function runGrading(
  deps: GradingDependencies,
  input: RunGradingInput,
  signal: AbortSignal,
): Promise<Graded> {
  const { task, patch, testTimeoutMs = TEST_TIMEOUT_MS } = input
  await deps.ensureImage(task, signal)
  const plan = await planRun(deps, input, signal)
  const attempt = { ...input, testTimeoutMs, plan }
  let { ran, verdict } = await gradeOnce(deps, attempt, signal)
  if (verdict.mayRepeat && !isForCaller(ran, input)) ({ ran, verdict } = await gradeOnce(deps, attempt, signal))
  const log = storedLog(task, ran, testTimeoutMs)
  await keepLog(deps.store, isForCaller(ran, input) ? input.timeOut.logKey : input.logKey, log)
  const seen = await unlessOverrun(async () => ({
    signs: await signsOf(input, ran),
    audit: verdict.kind === 'resolved' && patch.byteLength > 0 ? await auditGrading(deps, input, signal) : null,
  }))
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
    ...(seen === null || seen.audit === null ? {} : { audit: seen.audit }),
  }
}

async function signsOf({ task, patch }: RunGradingInput, ran: GradeRunResult): Promise<HackSign[]> {
  const isInconsistent = ran.kind === 'ran' && (await parse('isInconsistentLog', ran.log))
  return sortSigns([
    ...(await parse('patchSigns', { patch, goldPatch: task.goldPatch })),
    ...(isInconsistent ? (['inconsistent-log'] as const) : []),
  ])
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

type Attempt = RunGradingInput & { plan: Awaited<ReturnType<typeof planRun>>; testTimeoutMs: number }

async function gradeOnce(
  deps: GradingDependencies,
  attempt: Attempt,
  signal: AbortSignal,
): Promise<{ ran: GradeRunResult; verdict: Verdict }> {
  const { task, plan, testTimeoutMs } = attempt
  const { resetCommand, lastCheck, ...rest } = plan
  const ran = await deps.sandbox.grade(
    {
      ...gradedPatch(attempt, testTimeoutMs),
      ...rest,
      ...(resetCommand === null ? {} : { resetCommand }),
      ...(lastCheck === null ? {} : { lastCheck }),
      timeoutMs: testTimeoutMs,
    },
    signal,
  )
  const { kind, log } = ran
  return { ran, verdict: (await unlessOverrun(() => parse('judgeRun', task, { kind, log }))) ?? judgeOverrun(task) }
}

/**
 * Audits a patch in a container of its own: the official steps run code of the patch as root, and most patches do not resolve their
 * task.
 * @internal exported for tests of patches that resolve nothing
 */
export async function auditGrading(
  deps: GradingDependencies,
  input: RunGradingInput,
  signal: AbortSignal,
): Promise<AuditVerdict> {
  const { task, patch, isCaptured = true, testTimeoutMs = TEST_TIMEOUT_MS } = input
  const planned = await parse('planAudit', { task, patch, timeoutMs: testTimeoutMs })
  const run = await deps.sandbox.audit({ ...gradedPatch(input, testTimeoutMs), audit: planned.plan }, signal)
  return parse('judgeAudit', { task, patch, planned, run, isCaptured })
}

function gradedPatch(input: RunGradingInput, testTimeoutMs: number): GradedPatch {
  const { run, episode, owner, ownerRun, expectedDigest, role, limits, patch, task } = input
  return {
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
    leaseMs: testTimeoutMs + 5 * 60_000,
  }
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

/** The script that the task's harness runs, with every file that its row gives an address for, as gradings fetch them. */
export function evalScriptOf(task: Task): string {
  const assets = (task.harness?.assets ?? []).filter(({ url }) => url !== null)
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

/** Profiles that run the command of the row. */
const RUNS_OWN_COMMAND: ReadonlySet<GradingProfile> = new Set<GradingProfile>(['fork-4.0.3', 'rebench-v2'])
/** Profiles whose scripts name the repository's directory. */
const RUNS_IN_TESTBED: ReadonlySet<GradingProfile> = new Set<GradingProfile>(['fork-4.0.3', 'swebench-4.1'])

function faultOf(task: Task, profile: GradingProfile): string | null {
  const { logParser, testCmd } = task.installConfig
  if (!hasParser(profile, logParser)) return `it has no parser ${JSON.stringify(logParser)}`
  // Their scripts would run, without a test.
  if (RUNS_OWN_COMMAND.has(profile) && testCmd.trim() === '') return 'its row has no install_config.test_cmd'
  if (RUNS_IN_TESTBED.has(profile) && task.repoDir !== TESTBED) return `its repository is at ${task.repoDir}`
  try {
    evalScriptOf({ ...task, gradingProfile: profile })
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
