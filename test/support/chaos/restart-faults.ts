/** Faults that end a run, or reset it to an earlier point of its history. The harness then starts the same run again like an
 *  operator: with the product's own client, under the same name. */
import { execFile } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { WorkflowNotFoundError } from '@temporalio/client'
import proto from '@temporalio/proto'
import type { Random } from '../../../src/adapters/datasets/synthetic/compose.ts'
import { workflowIds } from '../../../src/contracts/workflow-ids.ts'
import { identify } from '../../../src/platform/processes.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { haveDied } from './effects.ts'
import type { Fault, StrikeInput } from './faults.ts'
import { EPISODE_PHASES, type Phase, RESTART_PHASES } from './phases.ts'
import type { Strike } from './visits.ts'

/** gRPC's code. */
const NOT_FOUND = 5
const CLI = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url))

const PARTS = {
  phases: RESTART_PHASES.filter((phase) => EPISODE_PHASES.some((one) => one === phase)),
  expects: 'restarted',
  needsParts: true,
} as const

/** For endings of one workflow, which its parents meet alike at all other moments. */
const AMID = ['placing', 'executing', 'grading'] as const satisfies readonly Phase[]

const RESTART = { phases: RESTART_PHASES, expects: 'restarted' } as const

export const RESTART_FAULTS: readonly Fault[] = [
  {
    ...RESTART,
    name: 'terminate-root',
    strike: async (input) => {
      await terminate(input.stack, input.workflowId)
      const status = await statusOf(input.stack, input.workflowId)
      return { over: pauseBeforeRestart(input), seen: () => status === 'TERMINATED' }
    },
  },
  {
    ...RESTART,
    name: 'terminate-all',
    strike: async (input) => {
      const ended = await terminateAll(input)
      const status = await statusOf(input.stack, input.workflowId)
      return { over: pauseBeforeRestart(input), seen: () => status === 'TERMINATED' && ended > 0 }
    },
  },
  {
    ...RESTART,
    name: 'cancel-restart:root',
    strike: async (input) => {
      await input.stack.connection.client.workflow.getHandle(input.workflowId).cancel()
      return onceClosed(input, 'CANCELLED')
    },
  },
  {
    ...RESTART,
    name: 'cancel-restart:stop-now',
    strike: async (input) => {
      const { temporalAddress } = input.stack
      await promisify(execFile)(process.execPath, [CLI, 'run', 'stop', input.run, '--now'], {
        env: { ...process.env, LONGHAUL_TEMPORAL_ADDRESS: temporalAddress },
      })
      return onceClosed(input, 'CANCELLED')
    },
  },
  ...(['terminate', 'cancel'] as const).flatMap((how) =>
    (['stage', 'rollout', 'part', 'group'] as const).map(
      (level): Fault => ({
        ...(level === 'rollout' || level === 'part' ? { ...PARTS, strikesPart: level === 'part' } : RESTART),
        ...(how === 'terminate' && (level === 'rollout' || level === 'part') ? {} : { phases: AMID }),
        ...(level === 'stage' ? { needsTraining: AMID } : {}),
        name: `${how}-one:${level}`,
        strike: async (input) => {
          const workflowId = await findWorkflow(input, level)
          const isEnded = workflowId !== null && (await end(input.stack, workflowId, how))
          const { over, seen } = onceClosed(input, 'FAILED')
          return { over: isEnded ? over : Promise.resolve(), seen: async () => isEnded && (await seen()) }
        },
      }),
    ),
  ),
  ...(['terminate', 'cancel'] as const).map(
    (how): Fault => ({
      // The run goes on: a terminated episode continues from its records, a cancelled one is replaced.
      phases: AMID,
      expects: how === 'terminate' ? 'identical' : 'replaced',
      name: `${how}-one:episode`,
      strike: async (input) => {
        const workflowId = await findWorkflow(input, 'episode')
        const runId = workflowId === null ? null : await openExecution(input.stack, workflowId)
        if (workflowId === null || runId === null) return { seen: () => false }
        await end(input.stack, workflowId, how)
        const expected = how === 'terminate' ? 'TERMINATED' : 'CANCELLED'
        const status = async () => statusOnceClosed(input.stack, workflowId, runId)
        return { over: sleep(1_000), seen: async () => (await status()) === expected }
      },
    }),
  ),
  ...(['root', 'all'] as const).map(
    (what): Fault => ({
      ...RESTART,
      phases: [...AMID, 'training'],
      name: `delete-${what}`,
      strike: async (input) => {
        const { stack, run, workflowId } = input
        const children = what === 'root' ? [] : await openWorkflows(stack, run)
        for (const id of [workflowId, ...children.filter((id) => id !== workflowId)]) await remove(stack, id)
        const gone = onceGone(stack, workflowId)
        return { over: gone.then(() => pauseBeforeRestart(input)), seen: () => gone }
      },
    }),
  ),
  ...(['root', 'stage', 'rollout', 'part', 'group', 'episode'] as const).map(
    (level): Fault => ({
      ...(level === 'part' ? { ...PARTS, strikesPart: true } : RESTART),
      name: `reset:${level}`,
      ...(level === 'stage' ? { needsTraining: RESTART_PHASES } : {}),
      strike: async (input) => {
        const workflowId = await findWorkflow(input, level)
        const fresh = workflowId === null ? null : await reset(input, workflowId)
        return {
          over: sleep(1_000),
          seen: async () => fresh !== null && (await executionExists(input.stack, workflowId ?? '', fresh)),
        }
      },
    }),
  ),
  {
    ...RESTART,
    name: 'fail-restart:account',
    // It ends a run at its next sample. An evaluation has often drawn its last sample when one of its episodes is graded.
    needsTraining: ['capturing', 'grading'],
    strike: async (input) => {
      const { visits } = input.stack
      visits.tell('policy', { policy: { kind: 'no-credit', times: Number.MAX_SAFE_INTEGER, ms: 0 } })
      const { over, seen } = onceClosed(input, 'FAILED')
      const healed = over.finally(() => visits.tell('policy', { policy: { kind: 'none', times: 0, ms: 0 } }))
      return { over: healed, seen }
    },
  },
  {
    ...RESTART,
    name: 'fail-restart:store',
    store: 'directory',
    // A store that stays full ends a run once activities have waited long enough.
    storePatienceS: 0,
    // A training job waits for room as long as the store is full: `disk-full` strikes it there.
    phases: RESTART_PHASES.filter((phase) => phase !== 'training'),
    strike: async (input) => {
      const { over, seen } = onceClosed(input, 'FAILED')
      const filled = input.stack.disk.fill(over)
      await Promise.race([filled, sleep(400)])
      return { over: filled, seen }
    },
  },
  {
    ...RESTART,
    name: 'fail-restart:timeout',
    limitsRun: true,
    strike: async (input) => {
      // The visitor waits for the rest of the run's time.
      const { over, seen } = onceClosed(input, 'TIMED_OUT')
      await over
      return { seen }
    },
  },
  {
    ...RESTART,
    name: 'database-lost',
    strike: async ({ stack, workflowId }) => {
      const files = await stack.loseDatabase()
      const status = await statusOf(stack, workflowId)
      return { over: stack.settle(), seen: () => files > 0 && status === null }
    },
  },
  {
    ...RESTART,
    name: 'stack-kill',
    strike: async ({ stack }) => {
      const before = [...stack.livingPids().map(identify), await stack.engines.a.daemon()]
      return { over: stack.crash().then(() => stack.settle()), seen: () => before.length > 5 && haveDied(before) }
    },
  },
]

// Endings of workflows -----------------------------------------------------------------------------------------------

function terminate(stack: ChaosStack, workflowId: string): Promise<boolean> {
  return end(stack, workflowId, 'terminate')
}

/** @returns whether it was open */
async function end({ connection }: ChaosStack, workflowId: string, how: 'terminate' | 'cancel'): Promise<boolean> {
  const handle = connection.client.workflow.getHandle(workflowId)
  try {
    await (how === 'terminate' ? handle.terminate('chaos') : handle.cancel())
    return true
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false
    throw error
  }
}

/** Number of rounds without an open workflow after which none is left, because the index lags briefly. */
const EMPTY_ROUNDS = 3

/** Terminates every workflow of the run, parents first or children first. @returns how many were ended */
async function terminateAll({ stack, run, workflowId, random }: StrikeInput): Promise<number> {
  const parentsFirst = random.below(2) === 0
  let ended = parentsFirst && (await terminate(stack, workflowId)) ? 1 : 0
  for (let empty = 0; empty < EMPTY_ROUNDS; ) {
    const open = await openWorkflows(stack, run)
    empty = open.length === 0 ? empty + 1 : 0
    const ordered = open.toSorted((one, other) => (parentsFirst ? 1 : -1) * (one.length - other.length))
    for (const id of ordered) if (await terminate(stack, id)) ended += 1
    if (open.length === 0) await sleep(150)
  }
  return ended
}

/** Ids of a run's open workflows, including its root. */
export async function openWorkflows(stack: ChaosStack, run: string): Promise<string[]> {
  return (await listWorkflows(stack, run, `ExecutionStatus = 'Running'`)).map(({ id }) => id)
}

/** No run's name is a prefix of another's. An evaluation's children are named like those of a training. */
async function listWorkflows(
  { connection }: ChaosStack,
  run: string,
  condition: string,
): Promise<{ id: string; isOpen: boolean }[]> {
  const found: { id: string; isOpen: boolean }[] = []
  for (const prefix of [workflowIds.train(run), workflowIds.evaluation(run)]) {
    const query = `${condition} AND WorkflowId STARTS_WITH '${prefix}'`
    for await (const one of connection.client.workflow.list({ query })) {
      found.push({ id: one.workflowId, isOpen: one.status.name === 'RUNNING' })
    }
  }
  return found
}

/** As `temporal workflow delete` does it: the server ends an open execution first. */
async function remove({ connection }: ChaosStack, workflowId: string): Promise<void> {
  const { client, namespace } = connection
  try {
    await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId } })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === NOT_FOUND)) throw error
  }
}

/** Deleting is work of the server's own queue. */
async function onceGone(stack: ChaosStack, workflowId: string): Promise<boolean> {
  for (const deadline = Date.now() + CLOSING_MS; Date.now() < deadline; await sleep(100)) {
    if ((await statusOf(stack, workflowId)) === null) return true
  }
  return false
}

async function openExecution({ connection }: ChaosStack, workflowId: string): Promise<string | null> {
  const { runId, status } = await connection.client.workflow.getHandle(workflowId).describe()
  return status.name === 'RUNNING' ? runId : null
}

/** Null where the server knows no such workflow. @param runId @default its last execution */
async function statusOf({ connection }: ChaosStack, workflowId: string, runId?: string): Promise<string | null> {
  try {
    return (await connection.client.workflow.getHandle(workflowId, runId).describe()).status.name
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null
    throw error
  }
}

/** Twice the time of an activity's five attempts, plus the attempts that record the failure. */
const CLOSING_MS = 150_000

export async function statusOnceClosed(stack: ChaosStack, workflowId: string, runId?: string): Promise<string | null> {
  for (const deadline = Date.now() + CLOSING_MS; ; await sleep(200)) {
    const status = await statusOf(stack, workflowId, runId).catch(() => 'RUNNING')
    if (status !== 'RUNNING' || Date.now() > deadline) return status
  }
}

/** @returns what waits for the end of the run, and for the operator's pause before the restart */
export function onceClosed(input: StrikeInput, expected: string): Strike & { over: Promise<unknown> } {
  let status: string | null = null
  const closed = statusOnceClosed(input.stack, input.workflowId).then((found) => (status = found))
  return { over: closed.then(() => pauseBeforeRestart(input)), seen: () => status === expected }
}

/** The operator restarts soon, late, or after everything has come to rest. */
async function pauseBeforeRestart({ stack, run, random }: StrikeInput): Promise<void> {
  const kind = random.below(3)
  if (kind === 1) await sleep(2_000)
  if (kind < 2) return
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(300)) {
    if ((await openWorkflows(stack, run)).length === 0) return
  }
}

// Resets of workflows ------------------------------------------------------------------------------------------------

const { RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL } = proto.temporal.api.enums.v1.ResetReapplyExcludeType

const TYPES = {
  root: [],
  stage: ['reinforce', 'evaluate', 'rejectionFineTune'],
  rollout: ['rollout'],
  part: ['rollout'],
  group: ['promptGroup'],
  episode: ['episode'],
} as const

/** An open workflow of this level, otherwise one that has ended. Null if there has been none yet. */
async function findWorkflow(
  { stack, run, workflowId, random }: StrikeInput,
  level: keyof typeof TYPES,
): Promise<string | null> {
  if (level === 'root') return workflowId
  const types = TYPES[level].map((type) => `'${type}'`).join(', ')
  const all = await listWorkflows(stack, run, `WorkflowType IN (${types})`)
  const found = all.filter(({ id }) => id !== workflowId && (level === 'part') === id.includes('/part/'))
  const open = found.filter(({ isOpen }) => isOpen)
  const [chosen] = pick(random, open.length > 0 ? open : found)
  return chosen?.id ?? null
}

/** Resets like `temporal workflow reset`, to any possible point, with or without the signals that came later. @returns the new execution */
async function reset({ stack, random }: StrikeInput, workflowId: string): Promise<string | null> {
  const { client, namespace } = stack.connection
  const handle = client.workflow.getHandle(workflowId)
  const { runId } = await handle.describe()
  const { events } = await handle.fetchHistory()
  const completed = (events ?? []).filter(
    ({ eventType }) => eventType === proto.temporal.api.enums.v1.EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
  )
  const [point] = pick(random, completed)
  if (point?.eventId === undefined || point.eventId === null) return null
  const answer = await client.workflowService.resetWorkflowExecution({
    namespace,
    workflowExecution: { workflowId, runId },
    reason: 'chaos',
    workflowTaskFinishEventId: point.eventId,
    resetReapplyExcludeTypes: random.below(2) === 0 ? [] : [RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL],
    requestId: `chaos-${workflowId}-${String(point.eventId)}-${Date.now()}`,
  })
  return answer.runId
}

async function executionExists({ connection }: ChaosStack, workflowId: string, runId: string): Promise<boolean> {
  try {
    return (await connection.client.workflow.getHandle(workflowId, runId).describe()).runId === runId
  } catch {
    return false
  }
}

function pick<T>(random: Random, all: readonly T[]): T[] {
  return random.sample(all, Math.min(1, all.length))
}
