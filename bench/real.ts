/**
 * Real tasks from rows to verdicts: imports, builds the images, gates, has scripted agents play, and asks the official harnesses
 * about every log.
 *
 *   npm run bench:real -- --rows FILE --repos DIRECTORY [--only TASK,…] [--jobs N] [--agents all,half,none] [--play N] [--out FILE] [--json]
 *
 * One agent applies the gold patch by a command in its sandbox, one half of it, one nothing; --play limits them to the first tasks. swebench 4.1.0 and 5.0.2 (installed into
 * the user's cache) grade the same logs; every difference is printed. Neither rows nor code of repositories enter the result. Exit 1
 * where a verdict differs, 2 where nothing was compared.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { stringify } from 'yaml'
import { readLog } from '../src/adapters/artifacts/stored-log.ts'
import { readRows } from '../src/adapters/datasets/read-source.ts'
import { normalizeRow } from '../src/adapters/datasets/normalize-row.ts'
import { buildTaskImages } from '../src/adapters/task-images/build-task-images.ts'
import { startEvaluation } from '../src/client/index.ts'
import type { VerdictRecord } from '../src/contracts/episodes.types.ts'
import type { GateRecord, GateReport, TaskGate } from '../src/contracts/gates.types.ts'
import { episodeKeys, gateKeys } from '../src/contracts/keys.ts'
import type { Task } from '../src/contracts/tasks.types.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { messagesOf, runs, startScriptedEndpoint } from '../test/support/chat-endpoint/scripted-endpoint.ts'
import { longhaul } from '../test/support/command-line.ts'
import { compareStoredLog, startOracles, type OracleVerdicts } from '../test/support/real-tasks/compare-stored-log.ts'
import { halfPatch } from '../test/support/real-tasks/half-patch.ts'
import { type PipelineWorld, worldOf } from '../test/support/pipeline-world.ts'
import { outcomeOf } from '../test/support/run-recipe.ts'
import { episodesOf } from '../test/support/run-records.ts'
import { attachStack, startStack } from '../test/support/start-stack.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { versions } from './support/versions.ts'

const AGENTS = ['all', 'half', 'none'] as const
type Agent = (typeof AGENTS)[number]

interface TaskResult {
  taskId: string
  python: string | null
  image: {
    did: string
    stage: string | null
    seconds: number
    megabytes: number
    ownMegabytes: number
    notes: string[]
  }
  gate: {
    outcome: string
    reason: string | null
    gold: string | null
    empty: string | null
    gradeMs: number | null
  } | null
  agents: Partial<Record<Agent, { verdict: string | null; disposition: string; official: OracleVerdicts | null }>>
  differences: string[]
}

endWith2OnError()
const { values } = parseArgs({
  options: {
    rows: { type: 'string' },
    repos: { type: 'string' },
    only: { type: 'string', multiple: true },
    jobs: { type: 'string', default: '1' },
    agents: { type: 'string', default: AGENTS.join(',') },
    play: { type: 'string', default: '1000' },
    out: { type: 'string' },
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

const signal = interruption()
const folder = await mkdtemp(join(tmpdir(), 'longhaul-real-'))
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
try {
  const wanted = new Set((values.only ?? []).flatMap((text) => text.split(',')))
  const rows = (await readRows(rowsFile))
    .map(({ row, label }) => ({ row, task: normalizeRow(row, { label }) }))
    .filter(({ task }) => wanted.size === 0 || wanted.has(task.taskId))
  const results = await measure(world, rows)
  const compared = results.flatMap(({ agents: played }) =>
    Object.values(played).filter(({ official }) => official !== null),
  )
  const differences = results.flatMap(({ taskId, differences: found }) => found.map((text) => `${taskId}: ${text}`))
  for (const difference of differences) console.error(difference)
  const result = {
    bench: 'real',
    date: new Date().toISOString(),
    ...versions(),
    cpus: cpus().length,
    engine: world.engine.version,
    tasks: results.length,
    built: results.filter(({ image }) => image.did !== 'failed').length,
    passed: results.filter(({ gate }) => gate?.outcome === 'passed').length,
    logsCompared: compared.length,
    differences: differences.length,
    results,
  }
  const text = `${JSON.stringify(result, null, 2)}\n`
  if (values.out !== undefined) await writeFile(values.out, text)
  if (values.json) process.stdout.write(text)
  else for (const one of results) console.log(line(one))
  process.exitCode = conclude({
    compared: { tasks: results.length, logs: compared.length },
    violations: differences.length,
  })
} finally {
  await world.close()
  if (known === null) await stack.stop()
  await rm(folder, { recursive: true, force: true })
}

async function measure(world: PipelineWorld, rows: { row: unknown; task: Task }[]): Promise<TaskResult[]> {
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
  const results = new Map<string, TaskResult>()
  for (const image of images) {
    results.set(image.taskId, {
      taskId: image.taskId,
      python: image.did === 'failed' ? null : (image.record?.python.version ?? null),
      image: {
        did: image.did,
        stage: image.did === 'failed' ? image.stage : null,
        seconds: Math.round(image.seconds),
        megabytes: image.did === 'failed' ? 0 : Math.round(image.bytes / 1e6),
        ownMegabytes: image.did === 'failed' ? 0 : Math.round(image.ownBytes / 1e6),
        notes: image.did === 'failed' ? [firstLine(image.message)] : (image.record?.deviations ?? []),
      },
      gate: null,
      agents: {},
      differences: [],
    })
  }
  const built = rows.filter(({ task }) => results.get(task.taskId)?.image.did !== 'failed')
  if (built.length === 0) return [...results.values()]
  const suite = join(folder, 'real.jsonl')
  await writeFile(suite, built.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
  const imported = await longhaul('tasks', 'import', suite, '--output', join(folder, 'suite.jsonl'))
  if (imported.exitCode !== 0) throw new Error(`tasks import: ${imported.stdout}${imported.stderr}`)
  const report = await gate(join(folder, 'suite.jsonl'))
  const oracles = await startOracles()
  try {
    for (const one of report.gates) {
      const result = results.get(one.taskId)
      if (result !== undefined) result.gate = await gateOf(world, one)
    }
    const played = built.map(({ task }) => task).slice(0, Number(values.play))
    for (const agent of agents) await play({ world, agent, tasks: played, results, oracles })
  } finally {
    await oracles.stop()
  }
  return [...results.values()]
}

async function gate(suite: string): Promise<GateReport> {
  const { stdout, stderr } = await longhaul(
    'tasks',
    'gate',
    suite,
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

async function gateOf({ store }: PipelineWorld, { taskId, outcome, reason, identity, gradeMs }: TaskGate) {
  const kindOf = async (check: 'gold' | 'empty'): Promise<string | null> => {
    if (identity === null) return null
    const record = await store.readRecord<GateRecord>(gateKeys.grading(taskId, identity, check, 1))
    return record?.verdict ?? null
  }
  return { outcome, reason, gold: await kindOf('gold'), empty: await kindOf('empty'), gradeMs: gradeMs?.p50 ?? null }
}

interface PlayInput {
  world: PipelineWorld
  agent: Agent
  tasks: Task[]
  results: Map<string, TaskResult>
  oracles: Awaited<ReturnType<typeof startOracles>>
}

/** Every task once, by an agent whose words are fixed; all that it does are commands in its sandbox. */
async function play({ world, agent, tasks, results, oracles }: PlayInput): Promise<void> {
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
      const key = (file: string): string => episodeKeys.grading(episode, task.gradingProfile, file)
      const verdict = await world.store.readRecord<VerdictRecord>(key('verdict.json'))
      const log = await readLog(world.store, key('test_output.txt'))
      const official = log === null ? null : await compareStoredLog(oracles, task, log)
      result.agents[agent] = { verdict: verdict?.kind ?? null, disposition, official: official?.verdicts ?? null }
      if (official === null || verdict === null) continue
      result.differences.push(...official.differences.map((text) => `${agent}: ${text}`))
      const theirs = official.verdicts['swebench-4.1'] === true ? 'resolved' : 'unresolved'
      if (task.gradingProfile === 'swebench-4.1' && verdict.kind !== theirs) {
        result.differences.push(`${agent}: swebench 4.1.0 says ${theirs}, the verdict is ${verdict.kind}`)
      }
    }
  } finally {
    await endpoint.close()
  }
}

function recipeOf({ agent, url, tasks }: { agent: Agent; url: string; tasks: number }): string {
  const source = { kind: 'rows', path: join(folder, 'suite.jsonl'), limit: tasks }
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
    `gold ${gated?.gold ?? '–'}`,
    `empty ${gated?.empty ?? '–'}`,
    verdicts,
    `${differences.length} differences`,
  ].join('  ')
}

function firstLine(text: string): string {
  return text.split('\n')[0]?.slice(0, 300) ?? ''
}
