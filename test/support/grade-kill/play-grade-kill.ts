/**
 * A file of predictions is graded while the sandbox worker is killed repeatedly: every patch must get one verdict, and a patch that
 * had a verdict before a kill must not be graded again. Judged by verdict records, by the engine's own events and by Temporal's
 * history.
 */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeOfficialFiles } from '../../../src/activities/grading/official-files.ts'
import { resolveSuite } from '../../../src/activities/grading/resolve-suite.ts'
import { storePredictions } from '../../../src/activities/grading/store-predictions.ts'
import { loadTasksAndFile } from '../../../src/adapters/datasets/load-tasks.ts'
import { writePredictions } from '../../../src/adapters/predictions/predictions.ts'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import { startGrading } from '../../../src/client/index.ts'
import type { GradingRecord } from '../../../src/contracts/grading.types.ts'
import { gradingKeys } from '../../../src/contracts/keys.ts'
import { type LayoutTask, writeLayoutRows } from '../layouts/layout-tasks.ts'
import type { PipelineWorld } from '../pipeline-world.ts'
import { fetchRunHistories } from '../run-histories.ts'
import { outcomeOf } from '../run-recipe.ts'
import { leftBehind } from '../run-records.ts'
import { type GraderStart, watchGraders } from './grader-starts.ts'

export interface GradeKillInput {
  world: PipelineWorld
  tasks: readonly LayoutTask[]
  /** Kills of the sandbox worker, spread over the patches. */
  kills: number
  recipesDir: string
  limitMs: number
  say: (line: string) => void
}

export interface GradeKillReport {
  run: string
  tasks: number
  layouts: Record<string, number>
  /** Patches that were run in a container. */
  patches: number
  kills: { atMs: number; verdicts: number; open: number; backMs: number }[]
  /** Starts of grader containers in all attempts. */
  containers: number
  /** Patches whose grading a kill interrupted, counted once for each kill. */
  startedAgain: number
  counts: GradingRecord['counts']
  wallS: number
  violations: string[]
}

/** The proposal at each place of the file, so that every kind of ending occurs. */
const PROPOSALS = ['gold', 'gold', 'wrong', 'gold', 'broken', 'gold', 'empty'] as const
type Proposal = (typeof PROPOSALS)[number]

const BROKEN = 'diff --git a/none b/none\n--- a/none\n+++ b/none\n@@ -1 +1 @@\n-nothing\n+something\n'

const EXPECTED: Record<Proposal, string> = {
  gold: 'resolved',
  wrong: 'unresolved',
  broken: 'unresolved patch-rejected',
  empty: 'unresolved empty-patch',
}

export async function playGradeKill(input: GradeKillInput): Promise<GradeKillReport> {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-grade-kill-'))
  try {
    return await play(input, folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function play(input: GradeKillInput, folder: string): Promise<GradeKillReport> {
  const { world, tasks, say } = input
  const { store, connection } = world
  const proposals = tasks.map((_, index) => PROPOSALS[index % PROPOSALS.length] ?? 'gold')
  const started = Date.now()
  const request = await prepare(input, proposals, folder)
  const run = `grade-kill-${process.pid}-${started.toString(36)}`
  const graders = await watchGraders(world.engine, run)
  const handle = await startGrading({ connection, ...request, recipe: 'mini', run })
  const patches = proposals.filter((proposal) => proposal !== 'empty').length
  const over = new AbortController()
  let starts: GraderStart[] = []
  const ended = outcomeOf({ connection, handle, limitMs: input.limitMs, say }).finally(() => {
    over.abort()
    starts = graders.stop()
  })
  const kills = await killWorker(input, run, patches, over.signal)
  const outcome = await ended
  const wallS = (Date.now() - started) / 1000
  const record = await store.readRecord<GradingRecord>(gradingKeys.result(run))
  const violations = [
    ...(outcome.status === 'completed' ? [] : [`the run ended as ${JSON.stringify(outcome)}`]),
    ...(kills.length === input.kills ? [] : [`${kills.length} of ${input.kills} kills met the run`]),
    ...(record === null ? ['no result was written'] : verdictFaults(record, tasks, proposals)),
    ...(await startFaults({ world, run, starts, kills })),
    ...(await historyFaults(world, handle.workflowId, patches)),
    ...(record === null ? [] : await fileFaults(world, run, join(folder, 'out'), record)),
    ...(await leftBehind(world, run)).map((what) => `left behind: ${what}`),
  ]
  const byTask = Map.groupBy(starts, ({ episode }) => episode)
  return {
    run,
    tasks: tasks.length,
    layouts: Object.fromEntries([...Map.groupBy(tasks, ({ layout }) => layout)].map(([name, of]) => [name, of.length])),
    patches,
    kills: kills.map(({ atMs, verdicts, open, backMs }) => ({
      atMs: atMs - started,
      verdicts: verdicts.size,
      open,
      backMs,
    })),
    containers: starts.length,
    startedAgain: [...byTask.values()].filter((of) => of.length > 1).length,
    counts: record?.counts ?? { resolved: 0, unresolved: 0, couldNotGrade: 0, empty: 0, incomplete: 0 },
    wallS,
    violations,
  }
}

async function prepare({ world, tasks, recipesDir }: GradeKillInput, proposals: Proposal[], folder: string) {
  const { store } = world
  const rows = join(folder, 'rows.jsonl')
  await writeLayoutRows(rows, tasks)
  const deps = {
    store,
    loadTasks: loadTasksAndFile,
    loadRecipe: (given: { name: string }) => loadRecipe({ ...given, dirs: [recipesDir] }),
  }
  const { manifest } = await resolveSuite(deps, rows)
  const predictions = join(folder, 'predictions.json')
  await writeFile(
    predictions,
    writePredictions(
      tasks.map(({ task, wrongPatch }, index) => {
        const patches = { gold: task.goldPatch, wrong: wrongPatch, broken: BROKEN, empty: '' }
        return { taskId: task.taskId, model: 'lane/kill', patch: patches[proposals[index] ?? 'gold'] }
      }),
      'json',
    ),
  )
  const { hash } = await storePredictions({ store, predictions, suite: manifest })
  return { predictions: hash, suite: manifest.hash }
}

interface Kill {
  atMs: number
  /** Verdict records at that time, with their bytes. */
  verdicts: Map<string, string>
  /** Running grader containers. */
  open: number
  backMs: number
}

/** Kills after about every n-th verdict, and only while a grader is running. */
async function killWorker(
  { world, kills, say }: GradeKillInput,
  run: string,
  patches: number,
  over: AbortSignal,
): Promise<Kill[]> {
  const done: Kill[] = []
  while (done.length < kills && !over.aborted) {
    const wanted = Math.floor(((done.length + 1) * patches) / (kills + 1))
    const verdicts = await readVerdicts(world, run)
    const open = await runningGraders(world, run)
    if (verdicts.size < wanted || open === 0) {
      await sleep(100)
      continue
    }
    const atMs = Date.now()
    await world.stack.kill('worker-sandbox')
    done.push({ atMs, verdicts, open, backMs: Date.now() - atMs })
    say(`       killed the sandbox worker: ${verdicts.size} verdicts, ${open} graders at work`)
  }
  return done
}

async function readVerdicts({ store }: PipelineWorld, run: string): Promise<Map<string, string>> {
  const keys = (await store.list(`runs/${run}/grading/`)).filter((key) => key.endsWith('/verdict.json'))
  const read = await Promise.all(keys.map(async (key) => [key, await readFile(store.path(key), 'utf8')] as const))
  return new Map(read)
}

async function runningGraders({ engine }: PipelineWorld, run: string): Promise<number> {
  const filters = { label: [`longhaul.run=${run}`], status: ['running'] }
  return (await engine.docker.listContainers({ filters })).length
}

function verdictFaults(record: GradingRecord, tasks: readonly LayoutTask[], proposals: readonly Proposal[]): string[] {
  const found = new Map(record.instances.map(({ taskId, kind, reason }) => [taskId, `${kind} ${reason ?? ''}`.trim()]))
  const wrong = tasks.flatMap(({ task: { taskId } }, index) => {
    const proposal = proposals[index] ?? 'gold'
    const verdict = found.get(taskId) ?? 'nothing'
    return verdict === EXPECTED[proposal] ? [] : [`${taskId}: the ${proposal} patch was ${verdict}`]
  })
  return record.instances.length === tasks.length
    ? wrong
    : [...wrong, `${record.instances.length} verdicts, expected ${tasks.length}`]
}

/** A container that started after its patch had a verdict graded it twice; so did starts that the kills do not explain. */
async function startFaults(input: {
  world: PipelineWorld
  run: string
  starts: readonly GraderStart[]
  kills: readonly Kill[]
}): Promise<string[]> {
  const { world, run, starts, kills } = input
  const faults: string[] = []
  const now = await readVerdicts(world, run)
  for (const { verdicts } of kills) {
    for (const [key, bytes] of verdicts) {
      if (now.get(key) !== bytes) faults.push(`${key} changed after a kill`)
    }
  }
  const byTask = Map.groupBy(starts, ({ episode }) => episode)
  for (const key of now.keys()) {
    const taskId = key.split('/').at(-3) ?? ''
    const ofTask = byTask.get(`${run}/grading/${taskId}`) ?? []
    const { mtimeMs } = await stat(world.store.path(key))
    if (ofTask.length === 0) faults.push(`${taskId} has a verdict and no container`)
    if (ofTask.length > 1 + kills.length) faults.push(`${taskId} was started ${ofTask.length} times`)
    if (ofTask.some(({ atMs }) => atMs > mtimeMs)) faults.push(`${taskId} was started after its verdict`)
  }
  if (now.size !== byTask.size) faults.push(`${byTask.size} patches were run, ${now.size} have a verdict`)
  return faults
}

/** One activity per patch: attempts repeat it, but no second one is scheduled. */
async function historyFaults({ connection }: PipelineWorld, workflowId: string, patches: number): Promise<string[]> {
  const histories = await fetchRunHistories(connection.client, workflowId)
  const scheduled = histories
    .flatMap(({ history }) => history.events)
    .filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'gradePatch').length
  return scheduled === patches ? [] : [`${scheduled} gradings were asked for, expected ${patches}`]
}

/** Every graded instance must have its files, and the run reports must have the counts of the records. */
async function fileFaults(
  { store }: PipelineWorld,
  run: string,
  directory: string,
  { counts, instances }: GradingRecord,
): Promise<string[]> {
  const faults: string[] = []
  let [resolved, errors, completed] = [0, 0, 0]
  for (const path of await writeOfficialFiles({ store, run, directory })) {
    const report = JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>
    if (Array.isArray(report['items'])) {
      const items = report['items'] as { passed_match?: boolean; error: string }[]
      resolved += items.filter((item) => item.passed_match === true).length
      continue
    }
    resolved += Number(report['resolved_instances'])
    errors += Number(report['error_instances'])
    completed += Number(report['completed_instances'])
  }
  if (resolved !== counts.resolved) faults.push(`the reports count ${resolved} resolved, the record ${counts.resolved}`)
  const ofFamily = instances.filter(({ profile }) => profile !== 'rebench-v2')
  const expected = {
    errors: ofFamily.filter(isError).length,
    completed: ofFamily.filter((one) => !isError(one) && one.reason !== 'empty-patch').length,
  }
  if (errors !== expected.errors) faults.push(`the reports count ${errors} errors, the record ${expected.errors}`)
  if (completed !== expected.completed) {
    faults.push(`the reports count ${completed} completed, the record ${expected.completed}`)
  }
  return faults
}

/** Whether the official files count an error: a patch that breaks its own grading is an error there. */
function isError({ kind, reason }: { kind: string; reason: string | null }): boolean {
  return kind === 'could-not-grade' || reason === 'patch-rejected'
}
