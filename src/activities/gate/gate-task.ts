import type { GateStep } from '../../contracts/activities.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { GateRecord, TaskGate } from '../../contracts/gates.types.ts'
import { gateKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { nextGateCheck } from '../../domain/gates/gate-rules.ts'
import { unauditedRewardsOf } from '../../domain/rewards/payment.ts'
import type { SuiteReader, TaskReader } from '../runtime/stored-records.ts'
import { gateIdentity, gradeForGate, readGateRecords } from './gate-grading.ts'
import { sandboxLimits } from '../episode/open-sandbox.ts'
import type { GradingDependencies } from '../grading/run-grading.ts'
import { failedGate, toTaskGate } from './task-gate.ts'
import type { VerifyImage } from './verify-image.ts'

/** A step begins no further grading after this long: its activity has a limit, and a history should show that a gate gets on. */
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
 * Some minutes of one task's gate: the image is verified, then gold and empty patch are graded until every repeat has its
 * record. Each grading is a record of its own: a crash costs only the grading that was under way, and later gates of the same
 * task, in any run or suite, reuse the others.
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

/** What keeps this one task from being gated, and no other: the gate goes on without it. */
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

/** Whether a gate that may go without some tasks goes without this one. */
export function mayExclude(recipe: Recipe, error: unknown): error is LonghaulError {
  return recipe.data.gate.refused === 'exclude' && isLonghaulError(error) && OF_THE_TASK.has(error.code)
}

/** The final record of a task that no attempt could gate. It holds for this run only: the next one tries again. */
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
