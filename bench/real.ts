/**
 * Real tasks from rows to verdicts: imports, builds the images, gates, has scripted agents play, and runs the official harnesses on
 * every log, including the gate's.
 *
 *   npm run bench:real -- --rows FILE --repos DIRECTORY [--only TASK,…] [--jobs N] [--agents all,half,none] [--play N]
 *                         [--batch N] [--out FILE] [--continue] [--json]
 *
 * One agent applies the gold patch by a command in its sandbox, one applies half of it, one applies nothing; --play limits them to
 * the first tasks. swebench 4.1.0 and 5.0.2 (installed into the user's cache) grade the same logs; every difference is printed. Tasks
 * run in batches, and --out is written after each. Results of other tasks in that file are kept; --continue also keeps results of the
 * same code, and has agents play tasks that were only gated. Each row has the time and the commit of its measurement. The result
 * contains neither rows nor repositories' code. Exit 1 if a verdict differs, 2 if nothing was compared.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readLog } from '../src/adapters/artifacts/stored-log.ts'
import { readRows } from '../src/adapters/datasets/read-source.ts'
import { normalizeRow } from '../src/adapters/datasets/normalize-row.ts'
import { buildTaskImages } from '../src/adapters/task-images/build-task-images.ts'
import { startEvaluation } from '../src/client/index.ts'
import type { AuditOutcome, AuditVerdict } from '../src/contracts/audit.types.ts'
import type { VerdictRecord } from '../src/contracts/episodes.types.ts'
import type { GateCheck, GateRecord, GateReport, TaskGate } from '../src/contracts/gates.types.ts'
import { episodeKeys, gateKeys } from '../src/contracts/keys.ts'
import type { BuiltTaskImage, FailedTaskImage } from '../src/contracts/task-images.types.ts'
import type { Task } from '../src/contracts/tasks.types.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { messagesOf, runs, startScriptedEndpoint } from '../test/support/chat-endpoint/scripted-endpoint.ts'
import { longhaul } from '../test/support/command-line.ts'
import { compareStoredLog, startOracles, type OracleVerdicts } from '../test/support/real-tasks/compare-stored-log.ts'
import { halfPatch } from '../test/support/real-tasks/half-patch.ts'
import {
  auditCost,
  type KeptRows,
  keptRows,
  provenanceOfRows,
  timesWithAudit,
} from '../test/support/real-tasks/real-rows.ts'
import { worldOf } from '../test/support/pipeline-world.ts'
import { outcomeOf } from '../test/support/run-recipe.ts'
import { episodesOf } from '../test/support/run-records.ts'
import { attachStack, startStack } from '../test/support/start-stack.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { type Provenance, versions } from './support/versions.ts'

const AGENTS = ['all', 'half', 'none'] as const
type Agent = (typeof AGENTS)[number]

interface TaskResult {
  taskId: string
  measured: Provenance
  python: string | null
  image: {
    did: string
    stage: string | null
    seconds: number
    megabytes: number
    ownMegabytes: number
    /** Image layer of the environment, shared with other tasks. */
    environment: string | null
    notes: string[]
  }
  gate: {
    outcome: string
    reason: string | null
    audits: Partial<Record<AuditOutcome, number>>
    gold: GateGrading | null
    empty: GateGrading | null
  } | null
  agents: Partial<Record<Agent, AgentResult>>
  differences: string[]
}

interface GateGrading {
  verdict: string
  /** The official steps alone if an audit ran before them; the first of the two includes the container's start. */
  gradeMs: number
  /** Time with the audit divided by time without it; null if no tests were audited. */
  timesWithAudit: number | null
  official: OracleVerdicts | null
  /** Why a patch is paid or not; null for the empty patch, which no gate audits. */
  audit: AuditVerdict | null
}

/** `official`: null without a log, as for an empty patch, which the official harness counts as unresolved without a run. */
interface AgentResult {
  verdict: string | null
  disposition: string
  official: OracleVerdicts | null
  /** Audit of the captured patch; null if there is none. */
  audit: AuditVerdict | null
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    rows: { type: 'string' },
    repos: { type: 'string' },
    only: { type: 'string', multiple: true },
    jobs: { type: 'string', default: '1' },
    agents: { type: 'string', default: AGENTS.join(',') },
    play: { type: 'string', default: '1000' },
    batch: { type: 'string', default: '5' },
    out: { type: 'string' },
    continue: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
})
const { rows: rowsFile, repos } = values
if (rowsFile === undefined || repos === undefined) {
  throw new Error('Expected --rows FILE (rows of SWE-bench or SWE-rebench) and --repos DIRECTORY (mirrors or bundles)')
}
const agents = values.agents.split(',').filter((name) => name !== '') as Agent[]
const strange = agents.filter((name) => !AGENTS.includes(name))
if (strange.length > 0) throw new Error(`Expected --agents of ${AGENTS.join(', ')}, got ${strange.join(', ')}`)

const batchSize = Number(values.batch)
if (!Number.isInteger(batchSize) || batchSize < 1) throw new Error(`Expected --batch of 1 or more, got ${values.batch}`)
if (values.continue && values.out === undefined) throw new Error('Expected --out FILE with --continue')

const allRows = (await readRows(rowsFile)).map(({ row, label }) => ({ row, task: normalizeRow(row, { label }) }))
const positions = new Map(allRows.map(({ task }, position) => [task.taskId, position]))

const signal = interruption()
const folder = await mkdtemp(join(tmpdir(), 'longhaul-real-'))
// This stack samples nothing: agents have their own endpoint.
process.env['LONGHAUL_POLICY_URL'] ??= 'http://127.0.0.1:9'
const known = await attachStack({
  name: process.env['LONGHAUL_STACK'] ?? '',
  home: process.env['LONGHAUL_HOME'] ?? '',
}).catch(() => null)
const stack =
  known ??
  (await startStack({
    name: `bench-real-${process.pid}`,
    home: folder,
    roles: ['control', 'sandbox', 'artifacts', 'trainer'],
    policyServer: false,
    signal,
  }))
Object.assign(process.env, stack.environment)
const world = await worldOf(stack)
const oracles = await startOracles()
const provenance = versions()
const suite = join(folder, 'suite.jsonl')
try {
  const wanted = new Set((values.only ?? []).flatMap((text) => text.split(',')))
  const rows = allRows.filter(({ task }) => wanted.size === 0 || wanted.has(task.taskId))
  const chosen = rows.map(({ task }) => task.taskId)
  const { kept: measured, outdated } = await measuredBefore(chosen)
  const mayPlay = new Set(chosen.slice(0, Number(values.play)))
  const left = rows.filter(({ task: { taskId } }) => {
    const before = measured.get(taskId)
    return before === undefined || (mayPlay.has(taskId) && agentsLeft(before).length > 0)
  })
  for (let at = 0; at < left.length; at += batchSize) {
    const batch = left.slice(at, at + batchSize)
    for (const result of await measure({ rows: batch, mayPlay, measured })) {
      measured.set(result.taskId, result)
      outdated.delete(result.taskId)
      console.error(line(result))
    }
    if (values.out !== undefined)
      await writeFile(values.out, textOf(resultOf([...measured.values(), ...outdated.values()])))
  }
  const results = [...measured.values()]
  const result = resultOf(results)
  for (const one of results) for (const text of one.differences) console.error(`${one.taskId}: ${text}`)
  for (const { taskId, gate: gated, agents: played } of results) {
    for (const [name, audit] of [
      ['gate', gated?.gold?.audit],
      ['agent', played.all?.audit],
    ] as const) {
      if (audit?.outcome === 'void')
        console.error(`${taskId}: gold is void (${name}) [${audit.reasons.join(', ')}]: ${audit.detail}`)
    }
  }
  if (values.out !== undefined) await writeFile(values.out, textOf(result))
  process.stdout.write(values.json ? textOf(result) : tableOf(result))
  process.exitCode = conclude({
    compared: { tasks: results.length, logs: result.logsCompared },
    violations: result.differences,
  })
} finally {
  await oracles.stop()
  await world.close()
  if (known === null) await stack.stop()
  await rm(folder, { recursive: true, force: true })
}

type Result = ReturnType<typeof resultOf>

function resultOf(unsorted: TaskResult[]) {
  const positionOf = ({ taskId }: TaskResult): number => positions.get(taskId) ?? positions.size
  const results = unsorted.toSorted((one, other) => positionOf(one) - positionOf(other))
  const logs = results.flatMap(({ gate, agents: played }) => [gate?.gold, gate?.empty, ...Object.values(played)])
  const resolved = results.filter(
    ({ gate }) => gate?.gold?.verdict === 'resolved' && gate.empty?.verdict === 'unresolved',
  )
  const environments = new Map(results.map(({ image }) => [image.environment, image.megabytes - image.ownMegabytes]))
  environments.delete(null)
  const own = results.reduce((sum, { image }) => sum + image.ownMegabytes, 0)
  return {
    bench: 'real',
    ...provenance,
    provenance: provenanceOfRows(results) ?? provenance.provenance,
    engine: world.engine.version,
    tasks: results.length,
    built: results.filter(({ image }) => image.did !== 'failed').length,
    resolvedByGoldAlone: resolved.length,
    passed: results.filter(({ gate }) => gate?.outcome === 'passed').length,
    logsCompared: logs.filter((one) => (one?.official ?? null) !== null).length,
    differences: results.reduce((sum, { differences }) => sum + differences.length, 0),
    audits: auditCost(results.flatMap(({ gate }) => gate?.gold ?? [])),
    /** Size of what tasks do not share, and of their environments, each including the base image. */
    megabytes: { own, environments: [...environments.values()].reduce((sum, size) => sum + size, 0) },
    results,
  }
}

function textOf(result: Result): string {
  return `${JSON.stringify(result, null, 2)}\n`
}

async function measuredBefore(chosen: string[]): Promise<KeptRows<TaskResult>> {
  const none = { kept: new Map<string, TaskResult>(), outdated: new Map<string, TaskResult>() }
  if (values.out === undefined) return none
  const before = await readFile(values.out, 'utf8').then(
    (text) => JSON.parse(text) as Result,
    () => null,
  )
  const { codeHash } = provenance.provenance
  return before === null ? none : keptRows({ before, chosen, isContinued: values.continue, codeHash })
}

/** A task that fails its gate is in no run's suite, so no agent plays it. */
function agentsLeft({ gate, agents: played }: TaskResult): Agent[] {
  return gate?.outcome === 'passed' ? agents.filter((agent) => played[agent] === undefined) : []
}

interface Row {
  row: unknown
  task: Task
}

interface MeasureInput {
  rows: Row[]
  mayPlay: ReadonlySet<string>
  /** Tasks that are not gated again. */
  measured: ReadonlyMap<string, TaskResult>
}

async function measure({ rows, mayPlay, measured }: MeasureInput): Promise<TaskResult[]> {
  const images = await buildTaskImages({
    engine: world.engine,
    tasks: rows,
    repositories: repos ?? '',
    base: null,
    network: null,
    jobs: Number(values.jobs),
    cacheDir: stackPaths().cacheDir,
    log: (text) => console.error(text),
    onResult: (image) => console.error(`${image.taskId}: ${image.did}, ${image.seconds.toFixed(0)} s`),
    signal,
  })
  const results = new Map(images.map((image) => [image.taskId, measured.get(image.taskId) ?? unplayed(image)]))
  const built = rows.filter(({ task }) => results.get(task.taskId)?.image.did !== 'failed')
  if (built.length === 0) return [...results.values()]
  const ungated = built.filter(({ task }) => !measured.has(task.taskId))
  if (ungated.length > 0) {
    const report = await gate(await importSuite(ungated))
    for (const one of report.gates) {
      const result = results.get(one.taskId)
      const task = built.find((row) => row.task.taskId === one.taskId)?.task
      if (result !== undefined && task !== undefined) await addGate(result, task, one)
    }
  }
  for (const agent of agents) {
    const played = built.filter(({ task: { taskId } }) => {
      const result = results.get(taskId)
      return result !== undefined && mayPlay.has(taskId) && agentsLeft(result).includes(agent)
    })
    if (played.length === 0) continue
    await importSuite(played)
    await play({ agent, tasks: played.map(({ task }) => task), results })
  }
  return [...results.values()]
}

async function importSuite(rows: Row[]): Promise<string> {
  const file = join(folder, 'real.jsonl')
  await writeFile(file, rows.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
  const imported = await longhaul('tasks', 'import', file, '--output', suite)
  if (imported.exitCode !== 0) throw new Error(`tasks import: ${imported.stdout}${imported.stderr}`)
  return suite
}

function unplayed(image: BuiltTaskImage | FailedTaskImage): TaskResult {
  const isBuilt = image.did !== 'failed'
  return {
    taskId: image.taskId,
    measured: { ...provenance.provenance, date: new Date().toISOString() },
    python: isBuilt ? (image.record?.python.version ?? null) : null,
    image: {
      did: image.did,
      stage: isBuilt ? null : image.stage,
      seconds: Math.round(image.seconds),
      megabytes: isBuilt ? Math.round(image.bytes / 1e6) : 0,
      ownMegabytes: isBuilt ? Math.round(image.ownBytes / 1e6) : 0,
      environment: isBuilt ? (image.record?.environment.layer ?? null) : null,
      notes: isBuilt ? (image.record?.deviations ?? []) : [firstLine(image.message)],
    },
    gate: null,
    agents: {},
    differences: [],
  }
}

async function gate(file: string): Promise<GateReport> {
  const { stdout, stderr } = await longhaul(
    'tasks',
    'gate',
    file,
    '--repeats',
    '1',
    '--fresh',
    '--json',
    '-c',
    'grading.unauditedRewards=allow',
  )
  const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as { report?: GateReport }
  if (last.report === undefined) throw new Error(`tasks gate: ${stdout}${stderr}`)
  return last.report
}

async function addGate(result: TaskResult, task: Task, { outcome, reason, identity, audits }: TaskGate): Promise<void> {
  const grading = async (check: GateCheck): Promise<GateGrading | null> => {
    if (identity === null) return null
    const record = await world.store.readRecord<GateRecord>(gateKeys.grading(task.taskId, identity, check, 1))
    if (record === null) return null
    const log = await readLog(world.store, record.logKey)
    const official =
      log === null ? null : await askOfficial(result, task, { name: check, log, verdict: record.verdict })
    const { verdict, gradeMs, audit = null } = record
    return { verdict, gradeMs, timesWithAudit: timesWithAudit({ gradeMs, audit }), official, audit }
  }
  result.gate = {
    outcome,
    reason,
    audits: audits ?? {},
    gold: await grading('gold'),
    empty: await grading('empty'),
  }
}

interface Asked {
  /** Shown in messages. */
  name: string
  log: Uint8Array
  verdict: string
}

/** The verdicts of both harnesses on a log; differences from Longhaul's are recorded. */
async function askOfficial(result: TaskResult, task: Task, { name, log, verdict }: Asked): Promise<OracleVerdicts> {
  const { verdicts, differences } = await compareStoredLog(oracles, task, log)
  result.differences.push(...differences.map((text) => `${name}: ${text}`))
  const theirs = verdicts['swebench-4.1'] === true ? 'resolved' : 'unresolved'
  if (task.gradingProfile === 'swebench-4.1' && verdict !== theirs) {
    result.differences.push(`${name}: swebench 4.1.0 says ${theirs}, the verdict is ${verdict}`)
  }
  return verdicts
}

interface PlayInput {
  agent: Agent
  tasks: Task[]
  results: Map<string, TaskResult>
}

/** Plays every task once with an agent whose replies are fixed; it acts only by commands in its sandbox. */
async function play({ agent, tasks, results }: PlayInput): Promise<void> {
  const endpoint = await startScriptedEndpoint((request) => {
    const [, issue, ...rest] = messagesOf(request)
    const task = tasks.find(({ statement }) => issue?.content.includes(statement.trim()))
    const patch =
      task === undefined || agent === 'none' ? '' : agent === 'all' ? task.goldPatch : halfPatch(task.goldPatch)
    return rest.length === 0 && patch !== ''
      ? runs(`git apply <<'END_OF_PATCH'\n${patch}\nEND_OF_PATCH`)
      : runs('submit')
  })
  try {
    const handle = await startEvaluation({
      connection: world.connection,
      recipe: `real-${agent}`,
      recipeText: recipeOf({ agent, url: endpoint.url, tasks: tasks.length }),
      fresh: true,
    })
    const ended = await outcomeOf({
      connection: world.connection,
      handle,
      limitMs: 6 * 60 * 60_000,
      signal,
      say: (text) => console.error(`${agent} ${text}`),
    })
    if (ended.status !== 'completed') throw new Error(`agent ${agent}: ${JSON.stringify(ended)}`)
    for (const { episode, taskId, disposition } of await episodesOf(world.store, ended.result.run)) {
      const result = results.get(taskId)
      const task = tasks.find((one) => one.taskId === taskId)
      if (result === undefined || task === undefined) continue
      const verdict = await world.store.readRecord<VerdictRecord>(episodeKeys.verdict(episode))
      const log = await readLog(world.store, episodeKeys.grading(episode, task.gradingProfile, 'test_output.txt'))
      const kind = verdict?.kind ?? null
      const official =
        log === null || kind === null ? null : await askOfficial(result, task, { name: agent, log, verdict: kind })
      // The official harness does not run an empty patch, and counts it as unresolved.
      if (kind === null) result.differences.push(`${agent}: no verdict (${disposition})`)
      else if (log === null && kind !== 'unresolved') result.differences.push(`${agent}: ${kind} without a log`)
      result.agents[agent] = { verdict: kind, disposition, official, audit: verdict?.audit ?? null }
    }
  } finally {
    await endpoint.close()
  }
}

function recipeOf({ agent, url, tasks }: { agent: Agent; url: string; tasks: number }): string {
  const source = { kind: 'rows', path: suite, limit: tasks }
  return stringify({
    model: { base: `scripted-${agent}` },
    data: { train: source, heldOut: source, gate: { repeats: 1, refused: 'exclude' } },
    scaffold: { profile: 'paper' },
    evaluate: { tasks, attempts: 1, maxTurns: 3, context: 60_000 },
    grading: { unauditedRewards: 'allow' },
    policyServer: { kind: 'chat', url, chat: { apiKeyVariable: 'LONGHAUL_STACK', requestTimeoutS: 60 } },
  })
}

function line({ taskId, python, image, gate: gated, agents: played, differences }: TaskResult): string {
  const verdicts = AGENTS.map((agent) => `${agent} ${played[agent]?.verdict ?? '–'}`).join(', ')
  return [
    taskId,
    python ?? '–',
    `${image.did}${image.stage === null ? '' : ` at ${image.stage}`}`,
    `${image.seconds} s`,
    `${image.megabytes} MB`,
    `gold ${gated?.gold?.verdict ?? '–'}`,
    `empty ${gated?.empty?.verdict ?? '–'}`,
    verdicts,
    `${differences.length} differences`,
  ].join('  ')
}

/** The table of `docs/real-tasks.md`. */
function tableOf({ results }: Result): string {
  const columns = [
    'task',
    'Python',
    'image',
    's',
    'MB',
    'own MB',
    'gold',
    's',
    'empty',
    's',
    'audit',
    's',
    'times',
    ...AGENTS,
    'harnesses',
    'measured',
  ]
  const seconds = (one: GateGrading | null | undefined): string => (one ? String(Math.round(one.gradeMs / 1000)) : '–')
  const rows = results.map(({ taskId, measured, python, image, gate: gated, agents: played, differences }) => [
    taskId,
    python ?? '–',
    image.stage === null ? image.did : `failed: ${image.stage}`,
    String(image.seconds),
    String(image.megabytes),
    String(image.ownMegabytes),
    gated?.gold?.verdict ?? '–',
    seconds(gated?.gold),
    gated?.empty?.verdict ?? '–',
    seconds(gated?.empty),
    Object.keys(gated?.audits ?? {}).join(', ') || '–',
    gated?.gold?.audit ? String(Math.round(gated.gold.audit.auditMs / 1000)) : '–',
    gated?.gold?.timesWithAudit?.toFixed(2) ?? '–',
    ...AGENTS.map((agent) => played[agent]?.verdict ?? '–'),
    differences.length === 0 ? 'equal' : `${differences.length} differ`,
    `${measured.date.slice(0, 10)} at ${measured.commit.slice(0, 7)}`,
  ])
  const lines = [columns, columns.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`)
  return `${lines.join('\n')}\n`
}

function firstLine(text: string): string {
  return text.split('\n')[0]?.slice(0, 300) ?? ''
}
