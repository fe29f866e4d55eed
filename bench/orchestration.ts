/**
 * What Temporal costs per turn and per episode: the real workflows on a real server, with activities that do nothing.
 *
 *   npm run bench:orchestration -- [--episodes 64] [--turns 40] [--json]
 *
 * Prints worker and server CPU per turn, turns per second, and events, activities and bytes of history per episode, for one
 * turn an activity and for eight (the default). Server: the one that a local stack would use, in a database file of its own.
 */
import type { Client } from '@temporalio/client'
import proto from '@temporalio/proto'
import { Runtime, DefaultLogger, Worker } from '@temporalio/worker'
import type { EpisodeProgress } from '../src/contracts/activities.types.ts'
import type { EpisodeInput, EpisodeResult } from '../src/contracts/workflows.types.ts'
import { QUEUES } from '../src/contracts/workflow-ids.ts'
import { buildWorkflowBundle } from '../src/workers/compose-control.ts'
import { startLocalServer } from '../test/support/local-server.ts'
import { benchArguments } from './support/arguments.ts'
import { childProcess, cpuSecondsOf } from './support/child-process.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { versions } from './support/versions.ts'

const HOST_QUEUE = QUEUES.sandboxHost('bench', 'bench')

const { temporal } = proto

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
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    episodes: { type: 'string', default: '64' },
    turns: { type: 'string', default: '40' },
    json: { type: 'boolean', default: false },
  },
})

Runtime.install({ logger: new DefaultLogger('ERROR') })
await using server = await startLocalServer({ onDisk: true })
const serverPid = childProcess(server.path)
const bundle = await buildWorkflowBundle()
const rows: Measured[] = []
for (const turnsPerStep of [1, 8]) {
  rows.push(await measure({ turnsPerStep, episodes: Number(values.episodes), turns: Number(values.turns), bundle }))
}
const result = { bench: 'orchestration', date: new Date().toISOString(), ...versions(), rows }
console.log(values.json ? JSON.stringify(result, null, 2) : table(rows))
const turns = rows.reduce((sum, row) => sum + row.turns * row.episodes, 0)
process.exitCode = conclude({ compared: { shapes: rows.length, turns }, violations: 0 })

async function measure(setting: {
  turnsPerStep: number
  episodes: number
  turns: number
  bundle: { code: string }
}): Promise<Measured> {
  const { turnsPerStep, episodes, turns } = setting
  const { nativeConnection: connection, client } = server.environment
  const workers = await Promise.all(
    [QUEUES.control, QUEUES.sandbox, QUEUES.placement, HOST_QUEUE].map((taskQueue) =>
      Worker.create({
        connection,
        taskQueue,
        activities: idleActivities(turnsPerStep, turns),
        ...(taskQueue === QUEUES.control ? { workflowBundle: setting.bundle } : {}),
      }),
    ),
  )
  const running = workers.map((worker) => worker.run())
  const ids = Array.from({ length: episodes }, (_, index) => `bench/${turnsPerStep}/ep/${index}`)
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

/** The shapes and sizes of the real ones, none of the work. */
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

/** Sizes of everything called `data` in a payload, wherever it sits in the history. */
function* payloadSizes(value: unknown): Generator<number> {
  if (value instanceof Uint8Array || value === null || typeof value !== 'object') return
  for (const [key, inner] of Object.entries(value)) {
    if (key === 'data' && inner instanceof Uint8Array) yield inner.length
    else yield* payloadSizes(inner)
  }
}

function table(rows: Measured[]): string {
  const head = [
    'turns/activity',
    'turns/s',
    'worker ms/turn',
    'server ms/turn',
    'activities',
    'events',
    'history bytes',
  ]
  const lines = rows.map((row) => [
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
