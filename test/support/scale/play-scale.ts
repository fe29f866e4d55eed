/** Plays a rollout of many concurrent episodes on its own server, and the leanest workflows beside it, for `bench/scale.ts` and its
 *  test. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import { changeEnvironment, withoutStack } from '../environment.ts'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import { askWorkflow, connect, type LonghaulConnection } from '../../../src/client/connect.ts'
import { QUEUES, workflowIds } from '../../../src/contracts/workflow-ids.ts'
import type { RolloutCounts } from '../../../src/contracts/workflows.types.ts'
import { packageFile } from '../../../src/stack/paths.ts'
import { ManagedProcess } from '../chaos/managed-process.ts'
import { type RunningStack, startStack } from '../start-stack.ts'
import { buildBundleOf } from '../workflow-bundle.ts'
import type { HostProcessInput } from './host-process.ts'
import { createProcessMeter, familyOf, type Metered } from './process-meter.ts'
import { countExecutions } from './scripted-sandboxes.ts'
import type { ProbeInput, ProbeTreeInput } from './probe.workflows.ts'
import { auditLedger, type LedgerAudit, type ScaleShape, storeRollout } from './scale-records.ts'

export interface PlayScaleInput {
  stack: RunningStack
  /** Folder for records, sandboxes and logs. */
  folder: string
  shape: ScaleShape
  hosts: number
  thinkMs: number
  /** No episode continues before this many are open. @default 1 */
  together?: number
  /** Interval of kills of the control worker, a host or the server in turn. Only kills if turns were played since the last kill; null: no
   *  kills. */
  killEveryMs: number | null
  timeoutMs: number
  onProgress?: (line: string) => void
}

export interface ScalePlayed {
  counts: RolloutCounts
  audit: LedgerAudit
  wallS: number
  turnsPerS: number
  /** Maximum number of episodes with an open workflow at one check. */
  live: number
  /** By part: `control`, `hosts`, `server`, `database`. */
  parts: Record<string, Metered>
  /** Slowest answer to each query of users, ms. */
  slowestMs: Record<string, number>
  /** When each of them was asked, seconds after the start of the rollout. */
  slowestAtS: Record<string, number>
  /** Histories of the rollout, of one of its groups and of one of its episodes. */
  histories: Record<string, { events: number; bytes: number }>
  kills: Record<string, number>
}

const LOOK_EVERY_MS = 1_000
/** A query without a worker fails for good after this time. */
const PATIENCE_MS = 120_000

/**
 * A Temporal server and a control worker, nothing else. Removes the variables of a running stack from this process, because that
 * stack's workers would take the work.
 */
export function startScaleStack(input: {
  home: string
  temporal?: 'postgres'
  signal?: AbortSignal
}): Promise<RunningStack> {
  changeEnvironment({ ...withoutStack(), LONGHAUL_POLICY_URL: NO_SERVER })
  const roles = ['control'] as const
  return startStack({ name: `scale-${process.pid}`, roles, policyServer: false, quiet: true, ...input })
}

/** Workers require an address, but send no request to it. */
const NO_SERVER = 'http://127.0.0.1:9'

/** @throws if the rollout fails or is not over in time */
export async function playScale(input: PlayScaleInput): Promise<ScalePlayed> {
  const { stack, folder, shape, timeoutMs } = input
  const store = createDirectoryStore({ root: stack.artifactsDir })
  const start = await storeRollout(store, shape)
  const hosts = await startHosts(input)
  const connection = await connect({ address: stack.temporalAddress, namespace: stack.namespace })
  const client = connection.client
  const meter = createProcessMeter(async () => {
    const pids = await stack.pids()
    const one = (pid: number | null | undefined): number[] => (pid === null || pid === undefined ? [] : [pid])
    return {
      control: one(pids['worker-control']),
      hosts: hosts.flatMap(({ pid }) => one(pid)),
      server: one(pids['temporal']),
      database: pids['postgres'] === undefined ? [] : familyOf(pids['postgres']),
    }
  })
  await meter.look()
  const kills: Record<string, number> = {}
  const over = new AbortController()
  const killing = killNowAndThen({ input, hosts, kills, signal: over.signal })
  // Awaited at the end; until then the measurement goes on.
  killing.catch(() => undefined)
  try {
    const workflowId = workflowIds.rollout(workflowIds.train(shape.run), start.stage, 1)
    const began = performance.now()
    await client.workflow.start('rollout', { taskQueue: QUEUES.control, workflowId, args: [start] })
    const slowest = new SlowestAnswers(began)
    let live = 0
    const ended = { yet: false }
    const result = patientResult(client, workflowId, began + timeoutMs).finally(() => {
      ended.yet = true
    })
    result.catch(() => undefined)
    while (!ended.yet && performance.now() < began + timeoutMs) {
      await Promise.race([result, sleep(LOOK_EVERY_MS)])
      await meter.look()
      live = Math.max(live, await ask(connection, workflowId, input.killEveryMs === null ? slowest : null))
      input.onProgress?.(`${((performance.now() - began) / 1000).toFixed(0)} s, ${live} live at most`)
    }
    if (!ended.yet) throw new Error(`Expected the rollout to end within ${timeoutMs / 1000} s`)
    const counts = await result
    const wallS = (performance.now() - began) / 1000
    const group = workflowIds.group(workflowId, 'synthetic__scale-000000')
    const histories: ScalePlayed['histories'] = {}
    for (const [name, id] of Object.entries({ rollout: workflowId, group, episode: workflowIds.episode(group, 0) })) {
      const { historyLength, historySize } = await client.workflow.getHandle(id).describe()
      histories[name] = { events: historyLength, bytes: historySize ?? 0 }
    }
    over.abort()
    await killing
    const audit = await auditLedger(
      store,
      shape,
      hostNames(input.hosts).map((host) => join(folder, 'sandboxes', host)),
    )
    const turns = shape.tasks * shape.groupSize * shape.turns
    const { slowestMs, slowestAtS } = slowest
    const costs = { parts: meter.read(), slowestMs, slowestAtS, histories }
    return { counts, audit, wallS, turnsPerS: turns / wallS, live, ...costs, kills }
  } finally {
    over.abort()
    await killing.catch(() => undefined)
    await Promise.all(hosts.map((host) => host.stop()))
    await connection.close()
  }
}

function hostNames(hosts: number): string[] {
  return Array.from({ length: hosts }, (_, index) => `scale-${index}`)
}

/** Starts a process for each host; the stack has the control worker. */
async function startHosts({
  stack,
  folder,
  shape,
  hosts,
  thinkMs,
  together = 1,
}: PlayScaleInput): Promise<ManagedProcess[]> {
  const sandboxes = join(folder, 'sandboxes')
  await mkdir(sandboxes, { recursive: true })
  return hostNames(hosts).map((host) => {
    const input: HostProcessInput = { host, folder: sandboxes, turns: shape.turns, thinkMs, together }
    const started = new ManagedProcess({
      name: host,
      command: process.execPath,
      args: ['test/support/scale/host-process.ts', JSON.stringify(input)],
      env: { ...stack.environment, LONGHAUL_POLICY_URL: NO_SERVER, NODE_NO_WARNINGS: '1' },
      log: join(folder, `${host}.log`),
      cwd: packageFile('.'),
    })
    started.start()
    return started
  })
}

/** The slowest answer to each query. */
class SlowestAnswers {
  readonly slowestMs: Record<string, number> = {}
  readonly slowestAtS: Record<string, number> = {}
  readonly #began: number

  constructor(began: number) {
    this.#began = began
  }

  answered(name: string, asked: number): void {
    const ms = performance.now() - asked
    if (ms <= (this.slowestMs[name] ?? 0)) return
    this.slowestMs[name] = ms
    this.slowestAtS[name] = (asked - this.#began) / 1000
  }
}

/**
 * Makes the queries of a run's page. @param slowest null while the server is being killed: then no answer is timed, and none is
 * required. @returns the number of live episodes
 */
async function ask(
  connection: LonghaulConnection,
  workflowId: string,
  slowest: SlowestAnswers | null,
): Promise<number> {
  const { client } = connection
  const questions: Record<string, () => Promise<unknown>> = {
    progress: () => askWorkflow({ connection, workflowId }, 'progress', PATIENCE_MS),
    describe: () => client.workflow.getHandle(workflowId).describe(),
    count: () => client.workflow.count(`WorkflowType = 'episode' AND ExecutionStatus = 'Running'`),
    list: () => firstPage(client),
  }
  let live = 0
  for (const [name, question] of Object.entries(questions)) {
    const asked = performance.now()
    try {
      const answer = await question()
      if (name === 'count') live = (answer as { count: number }).count
    } catch (error) {
      if (slowest !== null) throw error
    }
    slowest?.answered(name, asked)
  }
  return live
}

async function firstPage(client: Client): Promise<void> {
  let rows = 0
  for await (const _ of client.workflow.list({ query: `WorkflowType = 'episode'`, pageSize: 50 })) {
    rows += 1
    if (rows === 50) return
  }
}

/** Repeats the request, because a killed server drops it. */
async function patientResult(client: Client, workflowId: string, untilMs: number): Promise<RolloutCounts> {
  for (;;) {
    try {
      return (await client.workflow.getHandle(workflowId).result()) as RolloutCounts
    } catch (error) {
      const isOver = error instanceof Error && error.name === 'WorkflowFailedError'
      if (isOver || performance.now() > untilMs) throw error
      await sleep(500)
    }
  }
}

async function killNowAndThen({
  input: { killEveryMs, stack, folder },
  hosts,
  kills,
  signal,
}: {
  input: PlayScaleInput
  hosts: readonly ManagedProcess[]
  kills: Record<string, number>
  signal: AbortSignal
}): Promise<void> {
  if (killEveryMs === null) return
  // The hosts take turns within theirs.
  const victims = ['worker-control', 'host', 'temporal']
  const folders = hosts.map(({ plan }) => join(folder, 'sandboxes', plan.name))
  for (let number = 0, played = 0; !signal.aborted; ) {
    await sleep(killEveryMs, undefined, { signal }).catch(() => undefined)
    if (signal.aborted) return
    // Killing parts before they are up again proves nothing.
    const now = countExecutions(folders)
    if (now === played) continue
    played = now
    number += 1
    const victim = victims[number % victims.length] ?? ''
    if (victim === 'host') hosts[Math.floor(number / victims.length) % hosts.length]?.signal('SIGKILL')
    // A busy machine may need longer than this waits, but the kill still counts.
    else await stack.kill(victim).catch(() => undefined)
    kills[victim] = (kills[victim] ?? 0) + 1
  }
}

export interface ProbeRates {
  /** Activities per second of workflows without a parent, whose worker also plays their activities. */
  alone: number
  /** Activities per second of workflows in the shape of a rollout, whose activities are on another worker's queue. */
  tree: number
}

const PROBE_QUEUE = 'probe'
const PROBE_HOST_QUEUE = 'probe-host'

/** Workflows that only wait for activities that do nothing, as many as an episode has: first alone, then as a rollout. */
export async function playProbe(
  stack: RunningStack,
  { groups, groupSize, activities }: { groups: number; groupSize: number; activities: number },
): Promise<ProbeRates> {
  const connection = await NativeConnection.connect({ address: stack.temporalAddress })
  const { client, close } = await connect({ address: stack.temporalAddress, namespace: stack.namespace })
  const workflowBundle = await buildBundleOf(join(import.meta.dirname, 'probe.workflows.ts'))
  const shared = { connection, namespace: stack.namespace, activities: { nothing: async () => undefined } }
  const worker = await Worker.create({ ...shared, taskQueue: PROBE_QUEUE, workflowBundle, maxCachedWorkflows: 1_000 })
  const hosts = await Worker.create({ ...shared, taskQueue: PROBE_HOST_QUEUE })
  const workflows = groups * groupSize
  const play = (type: string, workflowId: string, input: ProbeInput): Promise<unknown> =>
    client.workflow.execute(type, { taskQueue: PROBE_QUEUE, workflowId: `${type}/${workflowId}`, args: [input] })
  const rate = async (played: () => Promise<unknown>): Promise<number> => {
    const began = performance.now()
    await played()
    return (workflows * activities) / ((performance.now() - began) / 1000)
  }
  try {
    const playing = worker.runUntil(async () => {
      const alone = await rate(() =>
        Promise.all(
          Array.from({ length: workflows }, (_, index) => play('probe', `${workflows}/${index}`, { activities })),
        ),
      )
      const input: ProbeTreeInput = { activities, groups, groupSize, hostQueue: PROBE_HOST_QUEUE }
      return { alone, tree: await rate(() => play('probeTree', `${workflows}`, input)) }
    })
    return await hosts.runUntil(playing)
  } finally {
    await close()
    await connection.close()
  }
}
