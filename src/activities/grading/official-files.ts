import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import type {
  GradingInstance,
  GradingPlan,
  GradingRecord,
  ShortVerdict,
  PredictionSet,
} from '../../contracts/grading.types.ts'
import { gradingKeys, predictionKeys } from '../../contracts/keys.ts'
import type { GradingProfile, SuiteManifest, Task } from '../../contracts/tasks.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import {
  type OfficialPrediction,
  type V2Outcome,
  officialInstanceReport,
  officialModelName,
  officialRunReport,
  rebenchV2Report,
  runReportName,
} from '../../report/official/run-report.ts'
import { readLogOf } from '../../adapters/artifacts/stored-log.ts'
import { parse } from '../../adapters/parsing/parser-pool.ts'
import { createSuiteReader, createTaskReader, readOrThrow } from '../runtime/stored-records.ts'
import { evalScriptOf } from './run-grading.ts'
import { identityOf } from './stored-plan.ts'
import { withoutTiming, withoutTimings } from '../../grading/test-names.ts'
import { makeDirectory } from '../../platform/files.ts'

export interface OfficialFilesInput {
  store: ArtifactStore
  run: string
  /** Directory for `logs/` and the run report. Existing files of the same names are replaced. */
  directory: string
}

/**
 * Writes the files that the official harness would have left for the same predictions: logs and reports of each instance, and the
 * report of the run. If the tasks belong to several harnesses, each gets its own run report.
 * @returns paths of the run reports
 * @throws LonghaulError `Config.Invalid` for a run that graded a run's patches, because no harness has a layout for several attempts
 */
export async function writeOfficialFiles({ store, run, directory }: OfficialFilesInput): Promise<string[]> {
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan(run))
  const { instances: verdicts } = await readOrThrow<GradingRecord>(store, gradingKeys.result(run))
  if (plan.source.kind !== 'predictions' || plan.suite === null) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected a run that graded predictions, got one that graded patches of ${plan.source.kind === 'run' ? plan.source.run : run}; write them as predictions first: longhaul predictions`,
    })
  }
  const readTask = createTaskReader(store)
  const graded = new Map<string, GradedFacts>()
  for (const [place, instance] of plan.instances.entries()) {
    const { suite, taskId, profile } = instance
    const task = { ...(await readTask({ suite, taskId })), gradingProfile: profile }
    const { kind, reason } = verdicts[place] ?? { kind: 'could-not-grade', reason: null }
    graded.set(taskId, { instance, task, verdict: { kind, reason }, ...(await readRun(store, run, instance)) })
  }
  const set = await readOrThrow<PredictionSet>(store, predictionKeys.set(plan.source.hash))
  const manifest = await createSuiteReader(store)(plan.suite.hash)
  const inOrder = set.predictions.flatMap(({ taskId }) => graded.get(taskId) ?? [])
  const write = async (path: string, content: string | Uint8Array): Promise<string> => {
    const target = join(directory, path)
    await makeDirectory(dirname(target))
    await writeFile(target, content)
    return target
  }
  const profileOf = async (taskId: string): Promise<GradingProfile> =>
    plan.profile ?? (await readTask({ suite: manifest.hash, taskId })).gradingProfile
  return writeReports({ store, run, write, inOrder, manifest, profileOf, readTask })
}

async function writeReports({
  store,
  run,
  write,
  inOrder,
  manifest,
  profileOf,
  readTask,
}: {
  store: ArtifactStore
  run: string
  write: WriteFile
  inOrder: readonly GradedFacts[]
  manifest: SuiteManifest
  profileOf: (taskId: string) => Promise<GradingProfile>
  readTask: ReturnType<typeof createTaskReader>
}): Promise<string[]> {
  const idsBy = new Map<GradingProfile, string[]>()
  for (const taskId of manifest.taskIds) {
    const profile = await profileOf(taskId)
    idsBy.set(profile, [...(idsBy.get(profile) ?? []), taskId])
  }
  const paths: string[] = []
  const isMixed = idsBy.size > 1
  for (const [profile, taskIds] of idsBy) {
    const ofProfile = inOrder.filter(({ instance }) => instance.profile === profile)
    if (profile === 'rebench-v2') {
      const tasks = await Promise.all(taskIds.map((taskId) => readTask({ suite: manifest.hash, taskId })))
      const outcomes = await outcomesOfV2({ tasks, graded: ofProfile, write })
      paths.push(await write('eval_report.json', rebenchV2Report({ maxWorkers: 1, outcomes })))
      continue
    }
    const predictions: OfficialPrediction[] = []
    for (const one of ofProfile) predictions.push(await writeInstance(store, run, profile, one, write))
    const model = (ofProfile[0] ?? inOrder[0])?.instance.model ?? 'none'
    const name = runReportName({ model, runId: isMixed ? `${run}.${profile}` : run })
    paths.push(await write(name, officialRunReport({ profile, taskIds, predictions })))
  }
  return paths
}

async function readRun(
  store: ArtifactStore,
  run: string,
  instance: GradingInstance,
): Promise<Pick<GradedFacts, 'log' | 'record'>> {
  if (instance.patch === null) return { log: null, record: null }
  const identity = identityOf(run, instance)
  const record = await store.readRecord<VerdictRecord>(gradingKeys.file(identity, 'verdict.json'))
  const key = gradingKeys.file(identity, 'test_output.txt')
  return { log: await readLogOf(store, key, record?.provenance?.logSha256), record }
}

/** What the harness would know of one instance, and the files that it would have left. */
async function writeInstance(
  store: ArtifactStore,
  run: string,
  profile: Exclude<GradingProfile, 'rebench-v2'>,
  { instance, task, verdict, log, record }: GradedFacts,
  write: WriteFile,
): Promise<OfficialPrediction> {
  const { taskId, model, patch, fault } = instance
  const isEmpty = patch === null && fault === null
  const folder = `logs/run_evaluation/${run}/${officialModelName(model)}/${taskId}`
  if (isEmpty) return { taskId, model, isEmpty, resolved: null, logs: [] }
  const applied = log !== null && verdict.reason !== 'patch-rejected'
  const instanceLog = describeInstance({ instance, verdict, record, applyLog: applied ? null : log })
  await write(`${folder}/run_instance.log`, instanceLog)
  if (patch !== null) await write(`${folder}/patch.diff`, await store.get(patch))
  if (!applied || log === null) return { taskId, model, isEmpty, resolved: null, logs: [instanceLog] }

  await write(`${folder}/eval.sh`, evalScriptOf(task))
  const text = Buffer.from(log).toString()
  // Version 5 replaces bytes that are no text before it writes them.
  await write(`${folder}/test_output.txt`, profile === 'swebench-5' ? text : log)
  const judged = isReadable(verdict) ? await parse('judgeRun', task, { kind: 'ran', log }) : null
  if (judged === null || judged.kind === 'could-not-grade') {
    return { taskId, model, isEmpty, resolved: null, logs: [text, instanceLog] }
  }
  const resolved = judged.kind === 'resolved'
  await write(
    `${folder}/report.json`,
    officialInstanceReport({ profile, taskId, resolved, tests: judged.tests, log: text }),
  )
  return { taskId, model, isEmpty, resolved, logs: [text, instanceLog] }
}

/** Whether the log gave the verdict. A log is also left by tests over their limit, by one that takes too long to read, and by gradings
 *  that had no verdict in the end. */
function isReadable({ kind, reason }: ShortVerdict): boolean {
  return kind !== 'could-not-grade' && reason !== 'tests-timed-out' && reason !== 'deadline'
}

/** Replaces the harness's own log: what was run where, and what prevented a verdict. */
function describeInstance({
  instance: { taskId, profile, fault },
  verdict,
  record,
  applyLog,
}: Pick<GradedFacts, 'instance' | 'verdict' | 'record'> & { applyLog: Uint8Array | null }): string {
  return [
    `Longhaul graded ${taskId} as ${profile}`,
    `verdict: ${verdict.kind}${verdict.reason === null ? '' : ` (${verdict.reason})`}`,
    ...(fault === null ? [] : [`patch: ${fault}`]),
    ...(record === null ? [] : [`image: ${record.image}`, `tests: ${(record.gradeMs / 1000).toFixed(2)} s`]),
    ...(applyLog === null ? [] : ['output of applying the patch:', Buffer.from(applyLog).toString()]),
    '',
  ].join('\n')
}

/** The facts about one instance that its harness's files need. */
interface GradedFacts {
  instance: GradingInstance
  task: Task
  verdict: ShortVerdict
  /** Null if no container finished. */
  log: Uint8Array | null
  record: VerdictRecord | null
}

/** @returns the path of the written file */
type WriteFile = (path: string, content: string | Uint8Array) => Promise<string>

/** The result of SWE-rebench-V2's script for every task of the set. Also writes the logs that it would have left. */
async function outcomesOfV2({
  tasks,
  graded,
  write,
}: {
  tasks: readonly Task[]
  graded: readonly GradedFacts[]
  write: WriteFile
}): Promise<V2Outcome[]> {
  const byTask = new Map(graded.map((one) => [one.task.taskId, one]))
  const outcomes: V2Outcome[] = []
  for (const task of tasks) outcomes.push(await outcomeOf(byTask.get(task.taskId), task, write))
  return outcomes
}

/** Tasks without a prediction count as errors; the gold patch is never used instead. */
async function outcomeOf(graded: GradedFacts | undefined, task: Task, write: WriteFile): Promise<V2Outcome> {
  const { taskId } = task
  const lists = {
    taskId,
    failToPass: task.failToPass.map(withoutTiming),
    passToPass: task.passToPass.map(withoutTiming),
  }
  if (graded === undefined) return { ...lists, result: null, error: `Task ${taskId} has no prediction.` }
  const { instance, log, record } = graded
  if (instance.patch === null) {
    const error = instance.fault ?? `Task ${taskId} missing patch/test_patch.`
    return { ...lists, result: null, error }
  }
  if (log === null || !isReadable(graded.verdict)) {
    return { ...lists, result: null, error: graded.verdict.reason ?? 'not graded' }
  }
  const read = await parse('gradeNamedLog', {
    profile: 'rebench-v2',
    parser: task.installConfig.logParser,
    log,
    tests: task,
  })
  if (read.kind === 'refused') return { ...lists, result: null, error: read.message }
  const logPath = `logs/${taskId}_log.txt`
  // Python translates line endings when it reads a program's output as text.
  await write(logPath, Buffer.from(log).toString().replaceAll(/\r\n?/g, '\n'))
  const passed = [...withoutTimings(read.statuses)].flatMap(([name, status]) => (status === 'PASSED' ? [name] : []))
  const exitCode = record?.provenance?.exitCode ?? null
  return { ...lists, result: { passed, matches: read.resolved === true, exitCode, logPath }, error: '' }
}
