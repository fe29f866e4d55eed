/**
 * Temporal's cost per turn and per episode: the real workflows on a real server, with activities that do nothing.
 *
 *   npm run bench:orchestration -- [--episodes 64] [--turns 40] [--traces] [--json] [--out bench/results/orchestration.json]
 *
 * Prints worker and server CPU per turn, turns per second, and events, activities and bytes of history per episode, for one turn per
 * activity and for eight (the default). With `--traces`, every shape is played three times without traces and three times with a
 * collector in its own process, alternately; the medians and their ratio are printed. The server is the one of a local stack, with
 * its own database file.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Client } from '@temporalio/client'
import { defaultPayloadConverter } from '@temporalio/common'
import proto from '@temporalio/proto'
import { Runtime, DefaultLogger, Worker } from '@temporalio/worker'
import type { EpisodeProgress } from '../src/contracts/activities.types.ts'
import type { EpisodeInput, EpisodeResult } from '../src/contracts/workflows.types.ts'
import { formatTraceparent, TRACE_HEADER } from '../src/contracts/trace-context.ts'
import { QUEUES } from '../src/contracts/workflow-ids.ts'
import { openTraces, type Traces } from '../src/platform/traces.ts'
import { buildWorkflowBundle } from '../src/workers/compose-control.ts'
import { tracedOptions } from '../src/workers/traces.ts'
import { startLocalServer } from '../test/support/local-server.ts'
import { benchArguments } from './support/arguments.ts'
import { childProcess, cpuSecondsOf } from './support/child-process.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { versions } from './support/versions.ts'

const HOST_QUEUE = QUEUES.sandboxHost('bench', 'bench')

const { temporal } = proto

/** Runs of each shape with traces, and without. */
const ROUNDS = 3

interface Measured {
  turnsPerStep: number
  episodes: number
  turns: number
  wallS: number
  turnsPerS: number
  workerCpuMsPerTurn: number
  serverCpuMsPerTurn: number
  activitiesPerEpisode: number
  eventsPerEpisode: number
  historyBytesPerEpisode: number
  largestPayloadBytes: number
  /** Whether each episode and activity made a span. */
  traced?: true
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    episodes: { type: 'string', default: '64' },
    turns: { type: 'string', default: '40' },
    traces: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})

Runtime.install({ logger: new DefaultLogger('ERROR') })
await using server = await startLocalServer({ onDisk: true })
const serverPid = childProcess(server.path)
const bundle = await buildWorkflowBundle()
const rows: Measured[] = []
const collector = values.traces ? await startCollector() : null
const ratios: Record<string, number> = {}
for (const turnsPerStep of [1, 8]) {
  const setting = { turnsPerStep, episodes: Number(values.episodes), turns: Number(values.turns), bundle }
  if (collector === null) {
    rows.push(await measure(setting))
    continue
  }
  const [without, traced]: [Measured[], Measured[]] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    without.push(await measure({ ...setting, round }))
    traced.push(await measure({ ...setting, round, collector: collector.url }))
  }
  const [off, on] = [middle(without), middle(traced)]
  rows.push(off, { ...on, traced: true })
  ratios[turnsPerStep] = on.workerCpuMsPerTurn / off.workerCpuMsPerTurn
}
collector?.stop()
const result = {
  bench: 'orchestration',
  date: new Date().toISOString(),
  ...versions(),
  rows,
  ...(values.traces ? { ratios } : {}),
}
if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`)
console.log(values.json ? JSON.stringify(result, null, 2) : table(rows))
if (values.traces && !values.json)
  console.log(`worker CPU with traces, by turns an activity: ${JSON.stringify(ratios)}`)
const turns = rows.reduce((sum, row) => sum + row.turns * row.episodes, 0)
process.exitCode = conclude({ compared: { shapes: rows.length, turns }, violations: 0 })

async function measure(setting: {
  turnsPerStep: number
  episodes: number
  turns: number
  bundle: { code: string }
  round?: number
  /** URL that receives the spans. @default no spans are made */
  collector?: string
}): Promise<Measured> {
  const { turnsPerStep, episodes, turns, round = 0, collector } = setting
  const { nativeConnection: connection } = server.environment
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector }
  const traces = await openTraces('bench', { env, warn: console.error })
  const client = traces === null ? server.environment.client : tracedClient(traces)
  const workers = await Promise.all(
    [QUEUES.control, QUEUES.sandbox, QUEUES.placement, HOST_QUEUE].map((taskQueue) =>
      Worker.create({
        connection,
        taskQueue,
        activities: idleActivities(turnsPerStep, turns),
        ...tracedOptions(traces),
        ...(taskQueue === QUEUES.control ? { workflowBundle: setting.bundle } : {}),
      }),
    ),
  )
  const running = workers.map((worker) => worker.run())
  const ids = Array.from(
    { length: episodes },
    (_, index) => `bench/${turnsPerStep}/${round}${traces === null ? '' : '/traced'}/ep/${index}`,
  )
  const cpuBefore = { worker: process.cpuUsage(), server: cpuSecondsOf(serverPid) }
  const started = performance.now()
  await Promise.all(
    ids.map(async (workflowId, index) => {
      const handle = await client.workflow.start('episode', {
        workflowId,
        taskQueue: QUEUES.control,
        args: [episodeInput(index)],
      })
      await handle.result()
    }),
  )
  await traces?.close(10_000)
  const wallS = (performance.now() - started) / 1000
  const cpu = process.cpuUsage(cpuBefore.worker)
  const serverCpuS = cpuSecondsOf(serverPid) - cpuBefore.server
  const history = await inspectHistory(client, ids[0] ?? '')
  for (const worker of workers) worker.shutdown()
  await Promise.all(running)
  const allTurns = episodes * turns
  return {
    turnsPerStep,
    episodes,
    turns,
    wallS,
    turnsPerS: allTurns / wallS,
    workerCpuMsPerTurn: (cpu.user + cpu.system) / 1000 / allTurns,
    serverCpuMsPerTurn: (serverCpuS * 1000) / allTurns,
    ...history,
  }
}

/** The median by worker CPU. */
function middle(measured: Measured[]): Measured {
  const sorted = measured.toSorted((a, b) => a.workerCpuMsPerTurn - b.workerCpuMsPerTurn)
  return sorted[Math.floor(sorted.length / 2)] as Measured
}

/** Answers like a collector and stores nothing. Its own process keeps its CPU time apart from the worker's. */
async function startCollector(): Promise<{ url: string; stop(): void }> {
  const program = `require('http').createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'))
  }).listen(0, '127.0.0.1', function () { console.log(this.address().port) })`
  const child = spawn(process.execPath, ['--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  return { url: `http://127.0.0.1:${Number(port)}`, stop: () => void child.kill() }
}

/** Starts each episode in its own trace. */
function tracedClient(traces: Traces): Client {
  const { connection, options } = server.environment.client
  return new Client({
    connection,
    namespace: options.namespace,
    interceptors: {
      workflow: [
        {
          async startWithDetails(input, next) {
            const span = traces.startSpan({
              name: 'StartWorkflow:episode',
              kind: 'client',
              parent: null,
              attributes: {},
            })
            const carrier = defaultPayloadConverter.toPayload({ traceparent: formatTraceparent(span.context) })
            const started = await next({ ...input, headers: { ...input.headers, [TRACE_HEADER]: carrier } })
            span.end()
            return started
          },
        },
      ],
    },
  })
}

function episodeInput(index: number): EpisodeInput {
  return {
    run: 'bench-2026-01-01-a',
    stage: 'dapo-1',
    iteration: 1,
    policy: 'v000123-0123abcd',
    suite: 'f'.repeat(64),
    taskId: 'synthetic__train-000123',
    index,
  }
}

/** Results with realistic shapes and sizes, without the work. */
function idleActivities(turnsPerStep: number, turns: number) {
  const input = { episode: 'bench', disposition: 'submitted', verdict: 'unresolved', turns, failure: null } as const
  return {
    openSandbox: async () => ({
      name: 'lh-bench-2026-01-01-a-dapo-1-0001-synthetic-train-000123-00-agent-1',
      containerId: 'c'.repeat(64),
      image: 'longhaul/synthetic:train-000123-0123456789ab',
      imageDigest: `sha256:${'d'.repeat(64)}`,
      hostQueue: HOST_QUEUE,
      repoDir: '/testbed',
      startCommit: 'e'.repeat(40),
    }),
    advanceEpisode: async ({ step }: { step: number }): Promise<EpisodeProgress> => {
      const done = Math.min(turns, step * turnsPerStep)
      return { turns: done, disposition: done === turns ? 'submitted' : null }
    },
    captureSubmission: async () => ({ key: 'episodes/bench/patch.diff', sha256: 'f'.repeat(64), bytes: 300 }),
    closeSandbox: async () => {},
    gradeSubmission: async (): Promise<EpisodeResult> => ({ ...input }),
  }
}

async function inspectHistory(client: Client, workflowId: string) {
  const history = await client.workflow.getHandle(workflowId).fetchHistory()
  const events = history.events ?? []
  const scheduled = temporal.api.enums.v1.EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
  return {
    activitiesPerEpisode: events.filter(({ eventType }) => eventType === scheduled).length,
    eventsPerEpisode: events.length,
    historyBytesPerEpisode: temporal.api.history.v1.History.encode(history).finish().length,
    largestPayloadBytes: Math.max(...payloadSizes(history)),
  }
}

/** Sizes of everything called `data` in a payload, at any depth of the history. */
function* payloadSizes(value: unknown): Generator<number> {
  if (value instanceof Uint8Array || value === null || typeof value !== 'object') return
  for (const [key, inner] of Object.entries(value)) {
    if (key === 'data' && inner instanceof Uint8Array) yield inner.length
    else yield* payloadSizes(inner)
  }
}

function table(rows: Measured[]): string {
  const head = [
    'traces',
    'turns/activity',
    'turns/s',
    'worker ms/turn',
    'server ms/turn',
    'activities',
    'events',
    'history bytes',
  ]
  const lines = rows.map((row) => [
    row.traced === true ? 'yes' : 'no',
    row.turnsPerStep,
    row.turnsPerS.toFixed(0),
    row.workerCpuMsPerTurn.toFixed(2),
    row.serverCpuMsPerTurn.toFixed(2),
    row.activitiesPerEpisode,
    row.eventsPerEpisode,
    row.historyBytesPerEpisode,
  ])
  return [head, ...lines].map((line) => line.join('\t')).join('\n')
}
