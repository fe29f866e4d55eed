import { setTimeout as sleep } from 'node:timers/promises'
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/client'
import { LonghaulError } from '../contracts/errors.ts'
import type { DrainRequest, HostDrain, HostFacts, HostHolder, HostInput, HostState } from '../contracts/hosts.types.ts'
import { HOST_TYPE, QUEUES, workflowIds } from '../contracts/workflow-ids.ts'
import { isSameHolder } from '../contracts/host-holder.ts'
import { readActivities } from './blockers/pending-activities.ts'
import { CALL_TIMEOUT_MS, IS_OPEN, isNotFound, isOpen, type LonghaulConnection } from './connect.ts'
import { grpcStatus } from '../platform/temporal-reach.ts'

/** A sandbox host as the server describes it, without asking a worker. */
export interface ListedHost {
  host: string
  /** Task queue of the sandboxes on this host. */
  queue: string
  /** `open`: takes work; `draining`: takes no new work and still has sandboxes or gradings; `drained`: has none; `away`: no worker heartbeats. */
  state: 'open' | 'draining' | 'drained' | 'away'
  /** Null while it takes work. */
  drain: HostDrain | null
  /** ISO time of its worker's last heartbeat; null: none so far. */
  lastSign: string | null
  /** Its load and free capacity by the worker's last report; null: no report so far. */
  facts: HostFacts | null
}

/** Result of draining or undraining a host. */
export interface HostAnswer {
  host: string
  changed: boolean
  /** True if the server has recorded the request and no control worker has executed it yet. */
  pending: boolean
  /** The host as it is now, or would be after a dry run. */
  state: ListedHost
  note: string | null
}

export interface HostsInput {
  connection: LonghaulConnection
}

export interface SteerHostInput extends HostsInput {
  host: string
  /** Changes nothing, and says what would change. @default false */
  dryRun?: boolean
}

/** Maximum number of concurrent calls. */
const CONCURRENT = 16

/**
 * All sandbox hosts by name, including those without a worker now.
 * @throws LonghaulError `Temporal.Unreachable`
 */
export async function listHosts({ connection }: HostsInput): Promise<ListedHost[]> {
  return called(connection, async () => {
    const names: string[] = []
    const query = `WorkflowType = '${HOST_TYPE}' AND ${IS_OPEN}`
    for await (const { workflowId } of connection.client.workflow.list({ query, pageSize: 200 })) {
      if (workflowId.startsWith(workflowIds.host(''))) names.push(workflowId.slice(workflowIds.host('').length))
    }
    const queue = names.toSorted()
    const found: ListedHost[] = []
    const look = async (): Promise<void> => {
      for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
        const one = await readHost(connection, name)
        if (one !== null) found.push(listed(one))
      }
    }
    await Promise.all(Array.from({ length: CONCURRENT }, look))
    return found.toSorted((a, b) => (a.host < b.host ? -1 : 1))
  })
}

/**
 * The host takes no more work from shared queues. Its work continues; after the grace time its open episodes move to other hosts.
 * Repeating the same call changes nothing.
 * @throws LonghaulError `Config.NotFound`, `Temporal.Unreachable`
 */
export function drainHost({ graceMs, ...input }: SteerHostInput & DrainRequest): Promise<HostAnswer> {
  return steerHost({
    ...input,
    signal: 'drain',
    request: { graceMs } satisfies DrainRequest,
    isDone: (drain) =>
      drain !== null &&
      // The same grace time does not restart, because a job that drains repeatedly would otherwise postpone the move of episodes forever.
      (graceMs === null
        ? drain.moveAt === null && !drain.moving
        : graceMs === 0
          ? drain.moving
          : drain.graceMs === graceMs),
    isObeyed: (drain) => drain !== null && (graceMs !== 0 || drain.moving),
    after: (drain) => ({
      since: drain?.since ?? new Date().toISOString(),
      moving: graceMs === 0,
      moveAt: graceMs === null ? null : new Date(Date.now() + graceMs).toISOString(),
      graceMs,
    }),
  })
}

/** The host takes work again. @throws LonghaulError `Config.NotFound`, `Temporal.Unreachable` */
export function uncordonHost(input: SteerHostInput): Promise<HostAnswer> {
  return steerHost({
    ...input,
    signal: 'uncordon',
    request: null,
    isDone: (drain) => drain === null,
    isObeyed: (drain) => drain === null,
    after: () => null,
  })
}

interface SteerHostCall extends SteerHostInput {
  signal: string
  request: DrainRequest | null
  /** Whether the command would change nothing. */
  isDone: (drain: HostDrain | null) => boolean
  /** Whether the command was executed. */
  isObeyed: (drain: HostDrain | null) => boolean
  after: (drain: HostDrain | null) => HostDrain | null
}

/** A control worker executes a command within a moment; without one the server keeps it. */
const ANSWER_MS = 5_000

async function steerHost(call: SteerHostCall): Promise<HostAnswer> {
  const { connection, host, dryRun = false, signal, request, isDone, isObeyed, after } = call
  const before = await called(connection, () => readHost(connection, host))
  if (before === null) throw await unknownHost(connection, host)
  const answer = { host, pending: false, note: null }
  if (isDone(before.drain)) {
    const note = before.drain === null ? 'it takes work already' : `it has been drained since ${before.drain.since}`
    return { ...answer, changed: false, state: listed(before), note }
  }
  if (dryRun) return { ...answer, changed: true, state: listed({ ...before, drain: after(before.drain) }) }
  await called(connection, () =>
    connection.client.workflow.getHandle(workflowIds.host(host)).signal(signal, ...(request === null ? [] : [request])),
  )
  for (const until = Date.now() + ANSWER_MS; ; await sleep(100)) {
    const now = await called(connection, () => readHost(connection, host))
    if (now === null) throw await unknownHost(connection, host)
    const isNew = JSON.stringify(now.drain) !== JSON.stringify(before.drain)
    if (isNew && isObeyed(now.drain)) return { ...answer, changed: true, state: listed(now) }
    if (Date.now() < until) continue
    const note = 'no control worker has answered: the request is recorded and carried out as soon as one is back'
    return { ...answer, changed: true, pending: true, state: listed(now), note }
  }
}

async function unknownHost(connection: LonghaulConnection, host: string): Promise<LonghaulError> {
  const names = (await listHosts({ connection })).map(({ host: name }) => name)
  const known = names.length === 0 ? 'no sandbox worker has joined' : `known are ${names.join(', ')}`
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `No sandbox host is called ${host}: ${known} (longhaul host list)`,
  })
}

// For workers of a host --------------------------------------------------------------------------------------------------

interface JoinInput extends HostsInput {
  host: string
  holder: HostHolder
}

/** Pause between two checks of a possibly live worker's heartbeats. */
const LOOK_AGAIN_MS = 1_000
/** Three times the server's heartbeat timeout. */
const MOST_LOOKS = 60

/**
 * Registers a worker's host, or finds its existing registration. The server starts only one workflow per name, so only one of two machines can hold it.
 * @returns the host's state
 * @throws LonghaulError `Config.Invalid` if a worker of another machine uses this name and is alive
 */
export async function joinHost({ connection, host, holder }: JoinInput): Promise<HostState> {
  let heardAt: number | null = null
  for (let looks = 1; ; looks++) {
    const seen = await called(connection, () => readHost(connection, host))
    if (seen === null && (await begin({ connection, host, holder }))) return { holder, drain: null }
    if (seen !== null && (isSameHolder(seen.holder, holder) || !seen.isAttended)) {
      await arrive({ connection, host, holder })
      return { holder, drain: seen.drain }
    }
    // The other worker was alive within its heartbeat timeout. A new heartbeat proves that it still is; otherwise the server ends its attempt.
    if (seen !== null && heardAt !== null && (seen.lastSignMs ?? 0) > heardAt) throw taken(host, seen)
    if (looks >= MOST_LOOKS) throw seen === null ? unreadable(host) : taken(host, seen)
    heardAt ??= seen?.lastSignMs ?? null
    await sleep(LOOK_AGAIN_MS)
  }
}

/** @returns null if no such host is known; `isAttended`: a worker has taken the heartbeating activity */
export async function readHostState({
  connection,
  host,
}: HostsInput & { host: string }): Promise<(HostState & { isAttended: boolean }) | null> {
  return called(connection, () => readHost(connection, host))
}

async function begin({ connection, host, holder }: JoinInput): Promise<boolean> {
  const state: HostState = { holder, drain: null }
  try {
    await called(connection, () =>
      connection.client.workflow.start(HOST_TYPE, {
        workflowId: workflowIds.host(host),
        taskQueue: QUEUES.control,
        args: [{ host, ...state } satisfies HostInput],
        memo: { host: state },
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        workflowIdConflictPolicy: 'FAIL',
        staticSummary: `sandbox host ${host}`,
      }),
    )
    return true
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false
    throw error
  }
}

async function arrive({ connection, host, holder }: JoinInput): Promise<void> {
  try {
    await called(connection, () =>
      connection.client.workflow.getHandle(workflowIds.host(host)).signal('arrived', holder),
    )
  } catch (error) {
    // It has ended in the meantime. The worker's next check finds none and starts one.
    if (!isNotFound(error)) throw error
  }
}

/** Started by hand, without the memo that workers set. */
function unreadable(host: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the memo of the workflow ${workflowIds.host(host)} to name its machine: terminate the workflow; the next sandbox worker starts a new one`,
  })
}

function taken(host: string, { holder }: HostSeen): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Another machine already serves as sandbox host ${host} (queue ${holder.queue}, engine ${holder.engine}): give each machine a LONGHAUL_HOST_ID of its own`,
    details: { host, queue: holder.queue, engine: holder.engine },
  })
}

// Reading ----------------------------------------------------------------------------------------------------------------

interface HostSeen extends HostState {
  host: string
  /** A worker has taken the activity and the server has not timed it out. */
  isAttended: boolean
  lastSignMs: number | null
  facts: HostFacts | null
}

async function readHost({ client }: LonghaulConnection, host: string): Promise<HostSeen | null> {
  const workflowId = workflowIds.host(host)
  try {
    const { raw, status, memo } = await client.workflow.getHandle(workflowId).describe()
    if (!isOpen(status.name)) return null
    const state = memo?.['host'] as HostState | undefined
    if (state === undefined) return null
    const activities = await readActivities({ client, workflowId, nowMs: Date.now() }, raw)
    const [one] = activities.filter(({ activity }) => activity === 'attendHost')
    return {
      host,
      ...state,
      isAttended: one?.state === 'started',
      lastSignMs: one?.lastHeartbeatMs ?? null,
      facts: (one?.heartbeat?.facts as HostFacts | null | undefined) ?? null,
    }
  } catch (error) {
    if (isNotFound(error)) return null
    throw error
  }
}

function listed({ host, holder, drain, isAttended, lastSignMs, facts }: HostSeen): ListedHost {
  return {
    host,
    queue: holder.queue,
    state: !isAttended ? 'away' : drain === null ? 'open' : isEmpty(facts) ? 'drained' : 'draining',
    drain,
    lastSign: lastSignMs === null ? null : new Date(lastSignMs).toISOString(),
    facts,
  }
}

/** By the worker's report after it has read that it is drained. */
function isEmpty(facts: HostFacts | null): boolean {
  return facts !== null && !facts.takesWork && facts.sandboxes === 0 && facts.gradings === 0
}

async function called<T>({ client, address }: LonghaulConnection, call: () => Promise<T>): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, call)
  } catch (error) {
    const status = grpcStatus(error)
    if (status !== 4 && status !== 14) throw error
    throw new LonghaulError({
      code: 'Temporal.Unreachable',
      message: `The Temporal server at ${address} did not answer within ${CALL_TIMEOUT_MS / 1000} s`,
      cause: error,
    })
  }
}
