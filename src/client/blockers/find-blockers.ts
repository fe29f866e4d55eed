import { QueryNotRegisteredError, type WorkflowService } from '@temporalio/client'
import { LonghaulError } from '../../contracts/errors.ts'
import type { WorkflowWaits } from '../../contracts/waits.types.ts'
import { QUEUES } from '../../contracts/workflow-ids.ts'
import { askWorkflow, isNotFound, type LonghaulConnection } from '../connect.ts'
import { grpcStatus } from '../../platform/temporal-reach.ts'
import { lookAtDeployment } from '../deployment.ts'
import { type Blocker, coordinatesOf, groupFindings } from './blocker.ts'
import { type ListedHost, listHosts } from '../hosts.ts'
import {
  type Finding,
  isAlive,
  judgeActivity,
  judgeEarlier,
  judgePaused,
  judgeSilence,
  judgeStuck,
  judgeWorkflowTask,
  type QueueState,
} from './judge-activity.ts'
import { findStuck, millis, type RunPicture, walkRun } from './pending-activities.ts'

export interface FindBlockersInput {
  connection: LonghaulConnection
  workflowId: string
  /** What lasts no longer is work under way. @default 30_000 */
  longerThanMs?: number
  /** Open workflows looked at, from the root down. @default 1_000 */
  maxWorkflows?: number
}

/** What a run waits for at one moment. */
export interface RunBlockers {
  workflowId: string
  /** ISO time of the look. */
  at: string
  /** What keeps the run from making progress, the oldest first. */
  blockers: Blocker[]
  /** What lasts long and may: tests and commands within their own deadlines, a place on busy workers. */
  waits: Blocker[]
  /** What the root says of itself; null where no worker answered, or where it has no such query. */
  self: WorkflowWaits | null
  /** Open workflows that were looked at, and those beyond the limit. */
  workflows: number
  notLookedAt: number
}

/** All of the look together: a thousand workflows take seconds, a server that stalls is an error with a name. */
const LOOK_TIMEOUT_MS = 60_000
const LONGER_THAN_MS = 30_000
const MAX_WORKFLOWS = 1_000

/**
 * Says what a run waits for, since when and for whom. Asked of the server alone, so it answers while workers are down; what
 * activities wait for is in their heartbeats.
 * @throws LonghaulError `Config.NotFound`, `Temporal.Unreachable`
 */
export async function findBlockers({
  connection,
  workflowId,
  longerThanMs = LONGER_THAN_MS,
  maxWorkflows = MAX_WORKFLOWS,
}: FindBlockersInput): Promise<RunBlockers> {
  try {
    return await connection.client.withDeadline(Date.now() + LOOK_TIMEOUT_MS, async () => {
      const nowMs = Date.now()
      const [picture, self] = await Promise.all([
        walkRun({ connection, workflowId, maxWorkflows, nowMs }),
        queryWaits({ connection, workflowId }),
      ])
      const queues = await describeQueues(connection, picture, nowMs)
      const promotion = self === 'no-answer' ? await promotionMissing(connection, workflowId, nowMs) : null
      const clock = { nowMs, longerThanMs }
      const said = self === 'no-answer' ? null : self
      const asked = askedOfPeople(workflowId, said)
      // The workflows of a paused run wait for the person, each with a timer.
      const idle = asked.length > 0 ? [] : picture.idle
      const stuck = await findStuck(connection, idle, (sinceMs) => nowMs - sinceMs > longerThanMs)
      const findings = [
        ...picture.activities.map((one) => judgeActivity(one, queues.of('activity', one.queue), clock)),
        ...picture.tasks.map((task) => judgeWorkflowTask(task, queues.of('workflow', task.queue), clock)),
        ...picture.earlier.map((one) => judgeEarlier(one, clock)),
        ...stuck.map(judgeStuck),
        ...picture.paused.map((one) => judgePaused(one, clock)),
        ...(self === 'no-answer' && promotion === null
          ? [judgeSilence(workflowId, queues.of('workflow', QUEUES.control), clock)]
          : []),
      ].filter((finding): finding is Finding => finding !== null)
      return {
        workflowId,
        at: new Date(nowMs).toISOString(),
        blockers: [
          ...(promotion === null ? [] : [promotion]),
          ...asked,
          ...groupFindings(findings.filter((one) => one.isBlocker)),
        ],
        waits: groupFindings(findings.filter((one) => !one.isBlocker)),
        self: said,
        workflows: picture.workflows,
        notLookedAt: picture.notLookedAt,
      }
    })
  } catch (error) {
    if (isNotFound(error)) throw notFound(workflowId, error)
    if (grpcStatus(error) === 4 || grpcStatus(error) === 14) throw unreachable(connection, error)
    throw error
  }
}

type QueueTable = { of(type: 'workflow' | 'activity', queue: string): QueueState | null }

/** Queues with waiting tasks; workflow queues always, since their workers answer queries. */
async function describeQueues(connection: LonghaulConnection, picture: RunPicture, nowMs: number): Promise<QueueTable> {
  const busy = new Set(picture.activities.filter((one) => isAlive(one, nowMs)).map(({ queue }) => queue))
  const states = new Map<string, QueueState>()
  const wanted = new Set([
    ...picture.activities.filter(({ state }) => state === 'queued').map(({ queue }) => `activity ${queue}`),
    ...picture.tasks.map(({ queue }) => `workflow ${queue}`),
    `workflow ${QUEUES.control}`,
  ])
  const isOfHosts = (key: string): boolean => OF_HOSTS.has(key)
  const hosts = [...wanted].some(isOfHosts) ? await presentHosts(connection) : []
  const drained = hosts.every(({ drain }) => drain !== null) ? hosts : []
  await Promise.all(
    [...wanted].map(async (key) => {
      const [type, queue] = key.split(' ') as ['workflow' | 'activity', string]
      const state = await describeQueue({ connection, queue, type })
      states.set(key, {
        ...state,
        // A full host polls for nothing and still sends heartbeats.
        isBusy: (type === 'activity' && busy.has(queue)) || (isOfHosts(key) && hosts.length > 0),
        ...(isOfHosts(key) ? { drained } : {}),
      })
    }),
  )
  return { of: (type, queue) => states.get(`${type} ${queue}`) ?? null }
}

type QueueType = NonNullable<Parameters<WorkflowService['describeTaskQueue']>[0]['taskQueueType']>

/** `temporal.api.enums.v1.TaskQueueType`, whose package is none of the client's. */
const TYPES: Record<'workflow' | 'activity', unknown> = { workflow: 1, activity: 2 }

async function describeQueue({
  connection: { client, namespace },
  queue,
  type,
}: {
  connection: LonghaulConnection
  queue: string
  type: 'workflow' | 'activity'
}): Promise<QueueState> {
  const taskQueueType = TYPES[type] as QueueType
  const request = { namespace, taskQueue: { name: queue }, taskQueueType, reportConfig: true }
  const { pollers, config } = await client.workflowService.describeTaskQueue(request)
  let state: QueueState = { lastPollMs: null, lastWorker: null, isBusy: false }
  for (const { lastAccessTime, identity } of pollers ?? []) {
    const lastPollMs = millis(lastAccessTime)
    if (lastPollMs !== null && lastPollMs > (state.lastPollMs ?? 0)) {
      state = { ...state, lastPollMs, lastWorker: identity ?? null }
    }
  }
  const { rateLimit = null, metadata = null } = config?.queueRateLimit ?? {}
  if (rateLimit === null) return state
  const limit = { perSecond: rateLimit.requestsPerSecond ?? 0, sinceMs: millis(metadata?.updateTime) }
  return { ...state, limit }
}

/** Control workers that say their build get no work before one build is current. */
async function promotionMissing(
  connection: LonghaulConnection,
  workflowId: string,
  nowMs: number,
): Promise<Blocker | null> {
  const { builds, current } = await lookAtDeployment(connection)
  const [newest] = builds
  if (newest === undefined || current !== null) return null
  return {
    on: { kind: 'worker', name: QUEUES.control },
    doing: `waiting until one of these builds is the current one: ${builds.map(({ build }) => build).join(', ')}`,
    since: (newest.seenAt ?? new Date(nowMs)).toISOString(),
    for: { workflowId, ...coordinatesOf(workflowId), activity: null, attempt: 1 },
    count: 1,
    error: null,
    toDo: `choose the build for new work: longhaul deployment promote ${newest.build}`,
  }
}

/** Queues that all sandbox hosts share. */
const OF_HOSTS = new Set([`activity ${QUEUES.placement}`, `activity ${QUEUES.sandbox}`])

/** Those with a worker that gives signs of life. */
async function presentHosts(connection: LonghaulConnection): Promise<readonly ListedHost[]> {
  return (await listHosts({ connection })).filter(({ state }) => state !== 'away')
}

/** What the root says that a person has to do. */
function askedOfPeople(workflowId: string, self: WorkflowWaits | null): Blocker[] {
  return (self?.waits ?? []).flatMap(({ on, doing, since, toDo }) =>
    toDo === null
      ? []
      : [
          {
            on,
            doing,
            since,
            for: { workflowId, ...coordinatesOf(workflowId), activity: null, attempt: 1 },
            count: 1,
            error: null,
            toDo,
          },
        ],
  )
}

function notFound(workflowId: string, cause: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.NotFound', message: `No run is called ${workflowId}`, cause })
}

function unreachable({ address }: LonghaulConnection, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Temporal.Unreachable',
    message: `The Temporal server at ${address} did not answer within ${LOOK_TIMEOUT_MS / 1000} s`,
    cause,
  })
}

/**
 * What a workflow says that it waits for itself; null for one that has no such query or is closed.
 * @returns `no-answer` while no worker runs workflows
 */
async function queryWaits(address: {
  connection: LonghaulConnection
  workflowId: string
}): Promise<WorkflowWaits | null | 'no-answer'> {
  try {
    return await askWorkflow<WorkflowWaits>(address, 'blockers')
  } catch (error) {
    if (error instanceof QueryNotRegisteredError) return null
    const status = grpcStatus(error)
    // 9: no poller, 4 and 1: not in time, 14: unavailable. What else the server says is about the query, not about workers.
    return status === 9 || status === 4 || status === 1 || status === 14 ? 'no-answer' : null
  }
}
