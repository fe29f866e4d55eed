import type { GateStep } from '../../contracts/activities.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { GateRecord, TaskGate } from '../../contracts/gates.types.ts'
import { gateKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { nextGateCheck, isGateCheckOk, judgeGate } from '../../domain/gates/gate-rules.ts'
import { unauditedRewardsOf } from '../../domain/rewards/payment.ts'
import type { SuiteReader, TaskReader } from '../runtime/stored-records.ts'
import { gateIdentity, gradeForGate, readGateRecords } from './gate-grading.ts'
import { sandboxLimits } from '../episode/open-sandbox.ts'
import type { GradingDependencies } from '../grading/run-grading.ts'
import type { VerifyImage, VerifiedImage } from './verify-image.ts'
import { hiddenNames } from '../../domain/gates/suite-filters.ts'

/** A step starts no further grading after this time, because its activity has a limit and the history should show the gate's progress. */
const STEP_MS = 10 * 60_000

export interface GateInput {
  run: string
  suite: string
  index: number
}

export type GateDependencies = GradingDependencies & {
  recipe: Recipe
  tasks: TaskReader
  suites: SuiteReader
  verifyImage: VerifyImage
  owner: string
  ownerRun?: string
  /** ms since 1970 */
  now: () => number
}

/**
 * Runs some minutes of one task's gate: verifies the image, then grades gold and empty patch until every repeat has its record. Each
 * grading is a separate record, so a crash only costs the grading in progress, and later gates of the same task, in any run or suite,
 * reuse the others.
 */
export async function gateTask(deps: GateDependencies, input: GateInput, signal: AbortSignal): Promise<GateStep> {
  const { run, suite } = input
  const task = await taskAt(deps, input)
  const key = gateKeys.task(run, suite, task.taskId)
  const known = await deps.store.readRecord<TaskGate>(key)
  if (known !== null) return { done: true, ok: known.outcome === 'passed' }

  const began = deps.now()
  const image = await deps.verifyImage(task, signal)
  const { repeats, refused } = deps.recipe.data.gate
  const needsAudit = unauditedRewardsOf(deps.recipe) === 'refuse'
  const limits = sandboxLimits(deps.recipe)
  const identity = gateIdentity({ task, image, limits })
  const found = { taskId: task.taskId, identity, repeats }
  const checks: GateRecord[] = await readGateRecords(deps, found)
  for (;;) {
    const next = nextGateCheck({ checks, repeats, stopAtFirst: refused === 'fail', needsAudit })
    if (next === null) break
    if (deps.now() - began > STEP_MS) return { done: false, ok: false }
    signal.throwIfAborted()
    checks.push(await gradeForGate(deps, { ...owned(deps, run), task, image, limits, ...next }, signal))
  }
  const gate = toTaskGate({ run, task, image, repeats, identity, needsAudit, checks })
  const { record } = await deps.store.claimRecord<TaskGate>(key, gate)
  return { done: true, ok: record.outcome === 'passed' }
}

/** Returns the failure if it prevents the gating of this task only; the gate then continues without it. */
const OF_THE_TASK: ReadonlySet<FailureCode> = new Set<FailureCode>([
  'Sandbox.ImageMissing',
  'Sandbox.ImageMismatch',
  'Sandbox.ImageUnsuitable',
  'Sandbox.PullFailed',
  'Sandbox.Stalled',
  'Sandbox.Lost',
  'Grading.Failed',
  'Grading.Ended',
  'Task.Invalid',
])

/** Returns whether a gate that may exclude tasks excludes this one. */
export function mayExclude(recipe: Recipe, error: unknown): error is LonghaulError {
  return recipe.data.gate.refused === 'exclude' && isLonghaulError(error) && OF_THE_TASK.has(error.code)
}

/** The final record of a task that no attempt could gate. It applies to this run only; the next run tries again. */
export async function recordUngated(
  deps: GateDependencies,
  input: GateInput,
  failure: LonghaulError,
): Promise<GateStep> {
  const { run, suite } = input
  const task = await taskAt(deps, input)
  const key = gateKeys.task(run, suite, task.taskId)
  const { record } = await deps.store.claimRecord<TaskGate>(key, failedGate({ run, task, failure }))
  return { done: true, ok: record.outcome === 'passed' }
}

async function taskAt({ suites, tasks }: GateDependencies, { suite, index }: GateInput): Promise<Task> {
  const taskId = (await suites(suite)).taskIds[index]
  if (taskId !== undefined) return tasks({ suite, taskId })
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'The suite has no such task',
    details: { suite, index },
  })
}

function owned({ owner, ownerRun }: GateDependencies, run: string): { run: string; owner: string; ownerRun?: string } {
  return { run, owner, ...(ownerRun === undefined ? {} : { ownerRun }) }
}

/** Limit of lists, because thousands of tasks are read into one report. Logs and gradings have the complete lists. */
const MAX_NAMED = 50

/** Summarises all gradings of one task. */
function toTaskGate({
  run,
  task,
  image,
  repeats,
  identity,
  needsAudit,
  checks,
}: {
  run: string
  task: Task
  image: VerifiedImage
  repeats: number
  identity: string
  needsAudit: boolean
  checks: readonly GateRecord[]
}): TaskGate {
  const { outcome, reason, flips } = judgeGate({ checks, repeats, needsAudit })
  const gold = checks.filter(({ check }) => check === 'gold')
  const failed = gold.filter((check) => !isGateCheckOk(check))
  const isAlwaysMissed = (test: string): boolean => gold.every(({ notPassed }) => Object.hasOwn(notPassed, test))
  const log = checks.find(({ check }) => check === 'empty')?.missedNames.join('\n') ?? ''
  const times = checks.map(({ gradeMs }) => gradeMs).toSorted((a, b) => a - b)
  const peaks = checks.flatMap(({ peakMemoryBytes: peak }) => (peak === null ? [] : [peak]))
  return {
    ...identityOf(run, task),
    imageDigest: image.digest,
    registryDigest: image.registryDigest,
    outcome,
    reason,
    audits: countAudits(gold),
    failure: null,
    gradings: {
      gold: gold.length,
      empty: checks.length - gold.length,
      made: checks.filter((check) => check.run === run).length,
    },
    identity,
    regraded: checks.filter(({ gradings }) => gradings > 1).length,
    flips: flips.slice(0, MAX_NAMED),
    failing:
      failed.length === 0
        ? []
        : Object.keys(failed[0]?.notPassed ?? {})
            .filter(isAlwaysMissed)
            .slice(0, MAX_NAMED),
    exceptions: sum(failed.map(({ exceptions }) => exceptions)),
    hiddenNames: hiddenNames({ log, goldPatch: task.goldPatch }).slice(0, MAX_NAMED),
    gradeMs: times.length === 0 ? null : { p50: median(times), max: times.at(-1) ?? 0 },
    peakMemoryBytes: peaks.length === 0 ? null : Math.max(...peaks),
  }
}

/** A task that could not be gated. */
function failedGate({ run, task, failure }: { run: string; task: Task; failure: LonghaulError }): TaskGate {
  return {
    ...identityOf(run, task),
    imageDigest: null,
    registryDigest: null,
    outcome: 'could-not-gate',
    reason: `${failure.message} (${failure.code})`,
    failure: failure.code,
    gradings: { gold: 0, empty: 0, made: 0 },
    identity: null,
    regraded: 0,
    flips: [],
    failing: [],
    exceptions: {},
    hiddenNames: [],
    gradeMs: null,
    peakMemoryBytes: null,
  }
}

function identityOf(run: string, { taskId, rowHash, gradingProfile, image }: Task) {
  return { schema: 'longhaul.task-gate/1' as const, run, taskId, rowHash, profile: gradingProfile, image }
}

function countAudits(gold: readonly GateRecord[]): NonNullable<TaskGate['audits']> {
  const counts: NonNullable<TaskGate['audits']> = {}
  for (const { audit } of gold) {
    if (audit !== undefined) counts[audit.outcome] = (counts[audit.outcome] ?? 0) + 1
  }
  return counts
}

function sum(counts: readonly Record<string, number>[]): Record<string, number> {
  const total: Record<string, number> = {}
  for (const count of counts) {
    for (const [name, times] of Object.entries(count)) total[name] = (total[name] ?? 0) + times
  }
  return total
}

/** @param sorted ascending, not empty */
function median(sorted: readonly number[]): number {
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? 0
  return sorted.length % 2 === 1 ? upper : Math.round(((sorted[middle - 1] ?? upper) + upper) / 2)
}
