/** Compares the reports of swebench or its fork on predictions that they graded in containers with Longhaul's. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { LOG_PROFILES } from '../../../src/grading/log-profiles.ts'
import { gradeLog } from '../../../src/grading/grade-log.ts'
import { RUN_PROFILES } from '../../../src/grading/profiles/run-profiles.ts'
import { officialInstanceReport, officialRunReport, runReportName } from '../../../src/report/official/run-report.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import type { LayoutTask } from '../layouts/layout-tasks.ts'
import type { PatchKind } from '../layouts/patches.ts'
import { countOutcomes } from './count-outcomes.ts'
import { type ContainerRun, containerRuns, type GradedCase, gradeCases } from './container-cases.ts'
import { harnessPython, locateHarness } from './oracle.ts'

export type MarkedHarness = 'swebench-4.1' | 'swebench-5' | 'fork-4.0.3'

export interface CompareContainersInput {
  engine: Engine
  harness: MarkedHarness
  /** Tasks of that profile, with built images. */
  tasks: readonly LayoutTask[]
  kinds: readonly PatchKind[]
  /** Empty; both sides write their files in it. */
  folder: string
  workers: number
}

export interface ContainerComparison {
  /** Predictions that both sides graded or refused. */
  predictions: number
  /** Number of predictions by Longhaul's outcome. */
  outcomes: Record<string, number>
  /** Each names run, task and file. */
  differences: string[]
}

const MODEL = 'org/model'
const FOLDER = 'org__model'

export async function compareContainers(input: CompareContainersInput): Promise<ContainerComparison> {
  const { engine, harness, tasks, kinds, folder, workers } = input
  const runs = containerRuns(tasks, kinds)
  const theirs = join(folder, 'theirs')
  const ours = join(folder, 'ours')
  await Promise.all([theirs, ours].map((path) => mkdir(path, { recursive: true })))
  const [graded] = await Promise.all([
    gradeCases({ engine, runs, folder: ours, workers }),
    runHarness({ engine, harness, tasks, runs, folder: theirs, workers }),
  ])
  const differences: string[] = []
  for (const { kind } of runs) {
    const ofRun = graded.filter((one) => one.kind === kind)
    const reports = new Map(ofRun.map((one) => [one.task.task.taskId, reportOf(harness, one)]))
    for (const one of ofRun) {
      const id = one.task.task.taskId
      const place = join(theirs, 'logs/run_evaluation', kind, FOLDER, id)
      const script = RUN_PROFILES[harness].plan(one.task.task, { hasPatch: true }).evalScript
      const pairs: [file: string, theirs: string | null, ours: string | null][] = [
        ['report.json', await readText(join(place, 'report.json')), reports.get(id) ?? null],
        // An instance whose patch is refused has no script.
        [
          'eval.sh',
          await readText(join(place, 'eval.sh')),
          one.graded?.reason === 'patch-rejected' || one.patch === '' ? null : script,
        ],
      ]
      for (const [file, left, right] of pairs) {
        if (left !== right) differences.push(`${kind} ${id} ${file}: ${brief(left)} is not ${brief(right)}`)
      }
    }
    const theirReport = await readText(join(theirs, runReportName({ model: MODEL, runId: kind })))
    const ourReport = runReport(harness, tasks, ofRun, reports)
    const same = theirReport !== null && isDeepStrictEqual(ofPredictions(theirReport), ofPredictions(ourReport))
    if (!same) differences.push(`${kind} run report: ${theirReport} is not ${ourReport}`)
  }
  return { predictions: graded.length, outcomes: countOutcomes(graded), differences }
}

async function runHarness({
  engine,
  harness,
  tasks,
  runs,
  folder,
  workers,
}: Omit<CompareContainersInput, 'kinds'> & { runs: readonly ContainerRun[] }): Promise<void> {
  const { folder: source } = await locateHarness(harness)
  const dataset = join(folder, 'dataset.json')
  await writeFile(dataset, JSON.stringify(tasks.map(({ row }) => row)))
  const jobRuns = await Promise.all(
    runs.map(async ({ kind, cases, timeoutS }) => {
      const predictions = join(folder, `${kind}.json`)
      const rows = cases.map(({ task, patch }) => ({
        instance_id: task.task.taskId,
        model_name_or_path: MODEL,
        model_patch: patch,
      }))
      await writeFile(predictions, JSON.stringify(rows))
      return { id: kind, predictions, timeout: timeoutS }
    }),
  )
  const job = join(folder, 'job.json')
  await writeFile(job, JSON.stringify({ dataset, workers, runs: jobRuns }))
  const { exitCode, tail } = await runCommand({
    command: await harnessPython(),
    args: [join(import.meta.dirname, 'harness.py'), harness, source, job],
    cwd: folder,
    env: { ...process.env, DOCKER_HOST: engine.host, PYTHONUTF8: '1', PYTHONDONTWRITEBYTECODE: '1' },
    timeoutMs: 1_800_000,
  })
  if (exitCode !== 0) throw new Error(`${harness} ended with ${exitCode}:\n${tail}`)
}

/** Null if upstream ends the instance with an error. */
function reportOf(profile: MarkedHarness, { task: { task }, graded, log }: GradedCase): string | null {
  if (graded === null || graded.kind === 'could-not-grade') return null
  const found = gradeLog({
    profile: LOG_PROFILES[profile],
    parser: task.installConfig.logParser,
    log,
    tests: task,
    evalType: task.harness?.evalType ?? 'pass_and_fail',
  })
  if (found.kind === 'refused') return null
  return officialInstanceReport({
    profile,
    taskId: task.taskId,
    resolved: graded.kind === 'resolved',
    tests: found.tests,
    log: new TextDecoder().decode(log),
  })
}

function runReport(
  profile: MarkedHarness,
  tasks: readonly LayoutTask[],
  graded: readonly GradedCase[],
  reports: ReadonlyMap<string, string | null>,
): string {
  return officialRunReport({
    profile,
    taskIds: tasks.map(({ task }) => task.taskId),
    predictions: graded.map(({ task: { task }, patch, graded: result, log }) => ({
      taskId: task.taskId,
      model: MODEL,
      isEmpty: patch === '',
      resolved: (reports.get(task.taskId) ?? null) === null ? null : result?.kind === 'resolved',
      logs: [new TextDecoder().decode(log)],
    })),
  })
}

/** Removes version 5's lists about the engine: containers with the run's id in their name, and images. */
function ofPredictions(report: string): object {
  const ofEngine = new Set(['unstopped_instances', 'unstopped_containers', 'unremoved_images'])
  const all = Object.entries(JSON.parse(report) as Record<string, unknown>)
  return Object.fromEntries(all.filter(([name]) => !ofEngine.has(name)))
}

function brief(text: string | null): string {
  return text === null ? '(no file)' : text.replaceAll(/\s+/g, ' ').slice(0, 400)
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
