/**
 * A suite is gated while the sandbox worker is killed repeatedly: the gate must find the right outcome of each task, and must not
 * repeat a grading that had its record before a kill. A second gate with one more repeat must only make the additional gradings.
 * Judged by records and by the engine's own events.
 */
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readGateSource } from '../../../src/cli/arguments/gate-source.ts'
import { type GateReport, type GateSuiteResult, startGate } from '../../../src/client/index.ts'
import type { GateOutcome, GateRecord } from '../../../src/contracts/gates.types.ts'
import { gateKeys } from '../../../src/contracts/keys.ts'
import type { GraderStart } from '../grade-kill/grader-starts.ts'
import { type LayoutTask, writeLayoutRows } from '../layouts/layout-tasks.ts'
import type { PipelineWorld } from '../pipeline-world.ts'
import { outcomeOf } from '../run-recipe.ts'
import { leftBehind } from '../run-records.ts'
import { watchStarts } from './watch-starts.ts'

export interface GateKillInput {
  world: PipelineWorld
  tasks: readonly LayoutTask[]
  /** Expected outcomes of tasks that do not pass, by id. */
  refused: Readonly<Record<string, GateOutcome>>
  repeats: number
  /** Kills of the sandbox worker, spread over the gradings. */
  kills: number
  limitMs: number
  say: (line: string) => void
}

export interface GateKillReport {
  run: string
  tasks: number
  layouts: Record<string, number>
  counts: GateReport['counts']
  gradings: number
  kills: { atMs: number; records: number; open: number; backMs: number }[]
  /** Starts of grading containers in all attempts. */
  containers: number
  /** Gradings that a kill interrupted and that were started again. */
  startedAgain: number
  gradeMs: GateReport['gradeMs']
  peakMemoryBytes: number | null
  wallS: number
  /** The second gate, with one more repeat. */
  again: { made: number; reused: number; containers: number; wallS: number }
  violations: string[]
}

export async function playGateKill(input: GateKillInput): Promise<GateKillReport> {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-gate-kill-'))
  try {
    const rows = join(folder, 'rows.jsonl')
    await writeLayoutRows(rows, input.tasks)
    return await play(input, rows)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function play(input: GateKillInput, rows: string): Promise<GateKillReport> {
  const { world, tasks, repeats } = input
  const startedMs = Date.now()
  const first = await gate(input, rows, { name: 'first', repeats, kills: input.kills })
  const second = await gate(input, rows, { name: 'second', repeats: repeats + 1, kills: 0 })
  const { report, starts, kills } = first
  const byGrading = Map.groupBy(starts, ({ episode }) => episode)
  return {
    run: report.run,
    tasks: tasks.length,
    layouts: Object.fromEntries([...Map.groupBy(tasks, ({ layout }) => layout)].map(([name, of]) => [name, of.length])),
    counts: report.counts,
    gradings: report.gradings.total,
    kills: kills.map(({ atMs, records, open, backMs }) => ({
      atMs: atMs - startedMs,
      records: records.size,
      open,
      backMs,
    })),
    containers: starts.length,
    startedAgain: [...byGrading.values()].filter((of) => of.length > 1).length,
    gradeMs: report.gradeMs,
    peakMemoryBytes: report.peakMemoryBytes,
    wallS: first.wallS,
    again: { ...pick(second.report.gradings), containers: second.starts.length, wallS: second.wallS },
    violations: [
      ...(kills.length === input.kills ? [] : [`${kills.length} of ${input.kills} kills met the gate`]),
      ...outcomeFaults(report, input.refused),
      ...(await startFaults(world, first)),
      ...secondFaults(first.report, second),
      ...(await emptyFaults(input, report)),
      ...(await leftBehind(world, report.run)).map((what) => `left behind: ${what}`),
    ],
  }
}

interface Gated {
  report: GateReport
  starts: GraderStart[]
  kills: Kill[]
  wallS: number
}

async function gate(
  input: GateKillInput,
  rows: string,
  { name, repeats, kills }: { name: string; repeats: number; kills: number },
): Promise<Gated> {
  const { world, limitMs, say } = input
  const { connection, store, engine } = world
  const startedMs = Date.now()
  const run = `gate-kill-${name}-${process.pid}-${startedMs.toString(36)}`
  const set = [
    'sandbox.request={cpu: 0.25, memGiB: 0.25}',
    'sandbox.limit={cpu: 1, memGiB: 0.5, pids: 256}',
    // Some layouts have runners without an audit.
    'grading.unauditedRewards=allow',
  ]
  const { request } = await readGateSource(rows, { repeats, set })
  const watched = watchStarts(engine, run)
  const handle = await startGate({ connection, ...request, run })
  const over = new AbortController()
  const ended = outcomeOf<GateSuiteResult>({ connection, handle, limitMs, say }).finally(() => over.abort())
  const killed = await killWorker({ ...input, kills, repeats }, run, over.signal).catch(async (error: unknown) => {
    await watched.stop()
    throw error
  })
  const outcome = await ended
  const starts = await watched.stop()
  if (outcome.status !== 'completed') throw new Error(`the gate ended as ${JSON.stringify(outcome)}`)
  const report = await store.readRecord<GateReport>(outcome.result.report.key)
  if (report === null) throw new Error('the gate wrote no report')
  return { report, starts, kills: killed, wallS: (Date.now() - startedMs) / 1000 }
}

interface Kill {
  atMs: number
  /** Keys of gradings with a record. */
  records: Set<string>
  /** Running grading containers. */
  open: number
  backMs: number
}

/** Kills after about every n-th grading, and only while one is in progress. */
async function killWorker(
  { world, tasks, refused, repeats, kills, say }: GateKillInput,
  run: string,
  over: AbortSignal,
): Promise<Kill[]> {
  const expected = (tasks.length - Object.keys(refused).length) * 2 * repeats
  const done: Kill[] = []
  while (done.length < kills && !over.aborted) {
    const records = await gradingsOf(world, tasks)
    const filters = { label: [`longhaul.run=${run}`], status: ['running'] }
    const open = (await world.engine.docker.listContainers({ filters })).length
    if (records.size < Math.floor(((done.length + 1) * expected) / (kills + 1)) || open === 0) {
      await sleep(100)
      continue
    }
    const atMs = Date.now()
    await world.stack.kill('worker-sandbox')
    done.push({ atMs, records, open, backMs: Date.now() - atMs })
    say(`       killed the sandbox worker: ${records.size} gradings, ${open} at work`)
  }
  return done
}

/** Keys of all gradings of these tasks. */
async function gradingsOf({ store }: PipelineWorld, tasks: readonly LayoutTask[]): Promise<Set<string>> {
  const lists = await Promise.all(tasks.map(({ task }) => store.list(`gates/${task.taskId}/`)))
  return new Set(lists.flat().filter((key) => key.endsWith('.json')))
}

function outcomeFaults({ gates }: GateReport, refused: GateKillInput['refused']): string[] {
  return gates.flatMap(({ taskId, outcome, reason }) => {
    const expected = refused[taskId] ?? 'passed'
    return outcome === expected ? [] : [`${taskId} is ${outcome} (${reason}), expected ${expected}`]
  })
}

/** A container that started after its grading had a record graded twice; so did starts that the kills do not explain. */
async function startFaults({ store }: PipelineWorld, { report, starts, kills }: Gated): Promise<string[]> {
  const faults: string[] = []
  for (const { taskId, identity, gradings } of report.gates) {
    if (identity === null) continue
    if (gradings.made !== gradings.gold + gradings.empty) faults.push(`${taskId} reused gradings that were never made`)
    for (const key of (await store.list(`gates/${taskId}/${identity}/`)).filter((name) => name.endsWith('.json'))) {
      const [, check = '', repeat = ''] = /(gold|empty)-0*(\d+)\.json$/.exec(key) ?? []
      const episode = `gate/${identity.slice(0, 12)}/${taskId}/${check}-${repeat}`
      const ofThis = starts.filter((start) => start.episode === episode)
      const { mtimeMs } = await stat(store.path(key))
      // A later gate of the same task adds its own records.
      if (Number(repeat) > report.repeats) continue
      if (ofThis.length === 0) faults.push(`${key} has no container`)
      if (ofThis.length > 1 + kills.length) faults.push(`${episode} was started ${ofThis.length} times`)
      if (ofThis.some(({ atMs }) => atMs > mtimeMs)) faults.push(`${episode} was started after its record`)
    }
  }
  return faults
}

/** The second gate must make one more grading of each patch for each task that passed. */
function secondFaults(first: GateReport, { report, starts }: Gated): string[] {
  const made = first.counts.passed * 2
  return [
    ...(report.gradings.made === made
      ? []
      : [`the second gate made ${report.gradings.made} gradings, expected ${made}`]),
    ...(starts.length === made ? [] : [`the second gate started ${starts.length} containers, expected ${made}`]),
    ...(report.counts.passed === first.counts.passed ? [] : ['the second gate found another number of sound tasks']),
  ]
}

/** Like upstream's, this parser reads a failed test's message as part of the name, so no log names that test. */
const TAKES_MESSAGES = 'parse_log_pytest_nebo'

/** The empty patch leaves the data set's tests on the unrepaired code: the tests that should begin to pass run and fail, and no other
 *  test fails. */
async function emptyFaults({ world, tasks }: GateKillInput, { gates }: GateReport): Promise<string[]> {
  const faults: string[] = []
  for (const { taskId, identity, outcome } of gates) {
    const task = tasks.find((one) => one.task.taskId === taskId)?.task
    if (task === undefined || identity === null || outcome !== 'passed') continue
    const record = await world.store.readRecord<GateRecord>(gateKeys.grading(taskId, identity, 'empty', 1))
    const failed = Object.entries(record?.notPassed ?? {})
    const ended = failed.map(([test, status]) => `${test} ${status}`).toSorted()
    const status = task.installConfig.logParser === TAKES_MESSAGES ? 'MISSING' : 'FAILED'
    const expected = [...new Set(task.failToPass)].map((test) => `${test} ${status}`).toSorted()
    if (ended.join('\n') !== expected.join('\n')) {
      faults.push(`${taskId} without its gold patch: ${ended.join(', ')}; expected ${expected.join(', ')}`)
    }
  }
  return faults
}

function pick({ made, reused }: GateReport['gradings']): { made: number; reused: number } {
  return { made, reused }
}
