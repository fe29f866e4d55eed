import { isDeepStrictEqual } from 'node:util'
import type { ClosedGrading } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradedInstance, GradingCounts, GradingPlan, GradingRecord } from '../../contracts/grading.types.ts'
import { gradingKeys } from '../../contracts/keys.ts'
import { type MissingTask, scoreGrading } from '../../domain/statistics/evaluation-summary.ts'
import { isChanged } from '../../domain/grading-rules.ts'
import { readOrThrow, type SuiteReader, type TaskReader, createTaskReader } from '../runtime/stored-records.ts'
import { readVerdict } from './stored-plan.ts'
import { compareVerdicts, type VerdictComparison } from '../../domain/statistics/compare-verdicts.ts'

interface CloseDependencies {
  store: ArtifactStore
  tasks: TaskReader
  suites: SuiteReader
}

/**
 * Computes counts and scores of a grading run from its plan and its verdicts alone. Decided once: an execution that follows finds the
 * first result.
 * @throws LonghaulError `Artifact.Missing` if a patch has neither a verdict nor a reason for having none
 */
export async function closeGrading(deps: CloseDependencies, { run }: { run: string }): Promise<ClosedGrading> {
  const key = gradingKeys.result(run)
  const { record } = await deps.store.claimRecord<GradingRecord>(key, await deriveGrading(deps, run))
  const { counts, graded, official, instances } = record
  const result = await deps.store.putRecord(key, record)
  return { result, counts, graded, official, changed: instances.filter(isChanged).length }
}

async function deriveGrading(deps: CloseDependencies, run: string): Promise<GradingRecord> {
  const { store } = deps
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan(run))
  const instances = await readInstances(store, plan)
  const missing = await missingTasks(deps, plan)
  const repoOf = async (suite: string, taskId: string): Promise<string> => (await deps.tasks({ suite, taskId })).repo
  const judged = []
  for (const [place, { taskId, kind }] of instances.entries()) {
    judged.push({ taskId, kind, repo: await repoOf(plan.instances[place]?.suite ?? '', taskId) })
  }
  const { graded, official } = scoreGrading(judged, missing)
  const counts = countVerdicts(instances, missing.length)
  const { source, profile, suite } = plan
  return { schema: 'longhaul.grading/1', run, source, profile, suite, counts, graded, official, instances }
}

export type GradingMismatch =
  /** The result lists other patches than the plan, or in another order. */
  | { kind: 'patches'; planned: number; listed: number }
  | { kind: 'other-verdict'; taskId: string; result: string; derived: string }
  /** Verdicts agree, and what is counted from them does not. */
  | { kind: 'totals' }

export interface GradingCheck {
  run: string
  counts: GradingCounts
  gradings: number
  mismatches: GradingMismatch[]
}

/**
 * Derives the result of a grading run again from its plan and verdicts and compares.
 * @returns null for a run that has not ended @throws LonghaulError `Artifact.Missing` where a patch has no verdict
 */
export async function checkGrading(deps: CloseDependencies, run: string): Promise<GradingCheck | null> {
  const stored = await deps.store.readRecord<GradingRecord>(gradingKeys.result(run))
  if (stored === null) return null
  const derived = await deriveGrading(deps, run)
  return { run, counts: stored.counts, gradings: stored.instances.length, mismatches: differences(stored, derived) }
}

function differences(stored: GradingRecord, derived: GradingRecord): GradingMismatch[] {
  const patches = ({ instances }: GradingRecord): unknown[] =>
    instances.map(({ taskId, model, profile, episode, before }) => ({ taskId, model, profile, episode, before }))
  if (!isDeepStrictEqual(patches(stored), patches(derived))) {
    return [{ kind: 'patches', planned: derived.instances.length, listed: stored.instances.length }]
  }
  const verdicts = derived.instances.flatMap((instance, place): GradingMismatch[] => {
    const [was, is] = [stored.instances[place], instance].map((one) => `${one?.kind} (${one?.reason ?? 'no reason'})`)
    if (was === undefined || is === undefined || was === is) return []
    return [{ kind: 'other-verdict', taskId: instance.taskId, result: was, derived: is }]
  })
  if (verdicts.length > 0) return verdicts
  const totals = ({ source, profile, suite, counts, graded, official }: GradingRecord): unknown =>
    JSON.parse(JSON.stringify({ source, profile, suite, counts, graded, official }))
  return isDeepStrictEqual(totals(stored), totals(derived)) ? [] : [{ kind: 'totals' }]
}

async function readInstances(store: ArtifactStore, plan: GradingPlan): Promise<GradedInstance[]> {
  const instances: GradedInstance[] = []
  for (const instance of plan.instances) {
    const { taskId, model, profile, episode, before } = instance
    const verdict = await readVerdict(store, plan.run, instance)
    if (verdict === null) {
      throw new LonghaulError({
        code: 'Artifact.Missing',
        message: 'Expected a verdict, or the reason for having none',
        details: { run: plan.run, task: taskId },
      })
    }
    instances.push({ taskId, model, profile, episode, before, ...verdict })
  }
  return instances
}

/** Regraded patches of a run are not expected to cover a data set, so no task counts as missing. */
async function missingTasks({ suites, tasks }: CloseDependencies, plan: GradingPlan): Promise<MissingTask[]> {
  if (plan.suite === null) return []
  const { hash } = plan.suite
  const given = new Set(plan.instances.map(({ taskId }) => taskId))
  const missing: MissingTask[] = []
  for (const taskId of (await suites(hash)).taskIds) {
    if (!given.has(taskId)) missing.push({ taskId, repo: (await tasks({ suite: hash, taskId })).repo })
  }
  return missing
}

function countVerdicts(instances: readonly GradedInstance[], incomplete: number): GradingCounts {
  const count = (choose: (instance: GradedInstance) => boolean): number => instances.filter(choose).length
  return {
    resolved: count(({ kind }) => kind === 'resolved'),
    unresolved: count(({ kind }) => kind === 'unresolved'),
    couldNotGrade: count(({ kind }) => kind === 'could-not-grade'),
    empty: count(({ reason }) => reason === 'empty-patch'),
    incomplete,
  }
}

/**
 * Compares the verdicts of a regrading run with the first verdicts, from its records alone, so that it works for every such run.
 * @returns null for predictions, which have no first verdicts, and if no patch was judged twice
 */
export async function compareGradings(store: ArtifactStore, record: GradingRecord): Promise<VerdictComparison | null> {
  if (record.source.kind !== 'run') return null
  const { instances: planned } = await readOrThrow<GradingPlan>(store, gradingKeys.plan(record.run))
  const readTask = createTaskReader(store)
  const patches = []
  // The record lists the instances in the plan's order.
  for (const [place, { taskId, before, kind }] of record.instances.entries()) {
    const { repo } = await readTask({ suite: planned[place]?.suite ?? '', taskId })
    patches.push({ taskId, repo, before: before?.kind ?? null, kind })
  }
  return compareVerdicts(patches)
}
