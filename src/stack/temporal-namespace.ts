import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

import { Connection } from '@temporalio/client'
import proto from '@temporalio/proto'

import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import { missingFrom, searchAttributes } from '../platform/search-attributes.ts'
import { explainAnswer, grpcStatus, probeTemporal, unreachableTemporal } from '../platform/temporal-reach.ts'
import { readTemporalSettings } from '../platform/temporal-settings.ts'

// The package is CommonJS, so its exports are properties of one default export.
const enums = proto.temporal.api.enums.v1

/** The development server's default is one day; nightly results must outlive a holiday. */
const RETENTION_DAYS = 30

export interface NamespaceInput {
  address: string
  namespace: string
  timeoutMs?: number
}

export interface NamespaceFacts {
  serverVersion: string
  retentionDays: number
  missingAttributes: string[]
}

/** @throws LonghaulError `Temporal.Unreachable` */
export async function inspectNamespace(input: NamespaceInput): Promise<NamespaceFacts> {
  return withConnection(input, async (connection) => readFacts(connection, input.namespace))
}

interface PrepareInput extends NamespaceInput {
  raiseRetention: boolean
  /** Whether to create a missing namespace. @default false */
  mayCreate?: boolean
}

/** Registers missing search attributes (as on an external server, or in the database of an older Longhaul) and raises the retention if
 *  requested. Safe to repeat.
 *  @throws LonghaulError `Temporal.Unreachable` */
export async function prepareNamespace(input: PrepareInput): Promise<NamespaceFacts> {
  if (input.mayCreate === true) await createNamespace(input)
  return withConnection(input, async (connection) => {
    const { namespace } = input
    const facts = await readFacts(connection, namespace)
    if (facts.missingAttributes.length > 0) {
      const types = searchAttributes()
      const asked = facts.missingAttributes.map((name) => [name, valueType(types[name] ?? '')] as const)
      await connection.operatorService
        .addSearchAttributes({ namespace, searchAttributes: Object.fromEntries(asked) })
        .catch((cause: unknown) => {
          throw NEEDS_OPERATOR.has(grpcStatus(cause) ?? 0) ? unregistered(input, facts, cause) : cause
        })
    }
    if (input.raiseRetention && facts.retentionDays < RETENTION_DAYS) {
      const seconds = RETENTION_DAYS * 86_400
      await connection.workflowService.updateNamespace({
        namespace,
        config: { workflowExecutionRetentionTtl: { seconds: seconds as never } },
      })
    }
    return facts
  })
}

/** gRPC status codes of a server that lets no client register search attributes, or not this one: denied, not implemented, unauthenticated. */
const NEEDS_OPERATOR = new Set([7, 12, 16])

function unregistered({ address, namespace }: NamespaceInput, facts: NamespaceFacts, cause: unknown): LonghaulError {
  const types = searchAttributes()
  const names = facts.missingAttributes.map((name) => `${name} (${types[name]})`).join(', ')
  return new LonghaulError({
    code: 'Temporal.Refused',
    message: `The Temporal server at ${address} lets this client register no search attributes. Register these in the namespace ${namespace} by the server's own tools: ${names}`,
    cause,
  })
}

/** gRPC status codes. */
const NOT_FOUND = 5
const ALREADY_EXISTS = 6
/** A server's caches see a new namespace within 10 s; those of a busy server take longer. */
const KNOWN_WITHIN_MS = 60_000

async function createNamespace(input: PrepareInput): Promise<void> {
  const { namespace } = input
  const isNew = await withConnection(input, async ({ workflowService }) => {
    try {
      const seconds = RETENTION_DAYS * 86_400
      await workflowService.registerNamespace({
        namespace,
        workflowExecutionRetentionPeriod: { seconds: seconds as never },
      })
      return true
    } catch (error) {
      if ((error as { code?: unknown }).code === ALREADY_EXISTS) return false
      throw error
    }
  })
  if (!isNew) return
  for (const deadline = Date.now() + KNOWN_WITHIN_MS; ; ) {
    try {
      await inspectNamespace(input)
      return
    } catch (error) {
      if (Date.now() > deadline) throw error
      await sleep(500)
    }
  }
}

/** A poller's last access time shows the server's clock: one poll of a queue without tasks, which the server forgets. */
const CLOCK_QUEUE = 'longhaul-doctor'
const CLOCK_MS = 4_000

/**
 * How far the server's clock is ahead of this machine's, in ms; 0 if the duration of the calls can explain the difference. Null if the
 * server does not show its clock in time.
 * @throws LonghaulError `Temporal.Unreachable`
 */
export function serverClock({
  now = Date.now,
  ...input
}: NamespaceInput & { now?: () => number }): Promise<{ aheadMs: number } | null> {
  return withConnection(input, async (connection) => {
    const { namespace } = input
    const identity = `${process.pid}@doctor-${randomUUID()}`
    const taskQueue = { name: CLOCK_QUEUE }
    const abort = new AbortController()
    const startedMs = now()
    const polled = connection
      .withAbortSignal(abort.signal, () =>
        connection.withDeadline(Date.now() + CLOCK_MS, () =>
          connection.workflowService.pollActivityTaskQueue({ namespace, taskQueue, identity }),
        ),
      )
      .catch(() => undefined)
    try {
      for (const deadline = Date.now() + CLOCK_MS; Date.now() < deadline; await sleep(100)) {
        const { pollers } = await connection.workflowService.describeTaskQueue({
          namespace,
          taskQueue,
          taskQueueType: enums.TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        })
        const time = pollers?.find((poller) => poller.identity === identity)?.lastAccessTime ?? null
        if (time === null) continue
        const serverMs = Number(time.seconds ?? 0) * 1000 + (time.nanos ?? 0) / 1e6
        const [earliestMs, latestMs] = [startedMs, now()]
        if (serverMs < earliestMs) return { aheadMs: serverMs - earliestMs }
        return { aheadMs: Math.max(0, serverMs - latestMs) }
      }
      return null
    } finally {
      abort.abort()
      await polled
    }
  })
}

/** Every server has it, for its own workflows. */
const SYSTEM_NAMESPACE = 'temporal-system'

/** Whether the server's history and matching services answer its frontend. Takes at most 3 s. */
export async function answersWhole(connection: Connection): Promise<boolean> {
  const namespace = SYSTEM_NAMESPACE
  return connection.withDeadline(Date.now() + 3_000, async () => {
    await connection.workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name: 'longhaul-readiness' },
      taskQueueType: enums.TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    })
    try {
      await connection.workflowService.describeWorkflowExecution({
        namespace,
        execution: { workflowId: 'longhaul-readiness' },
      })
    } catch (error) {
      return (error as { code?: unknown }).code === NOT_FOUND
    }
    return true
  })
}

/** Whether the process `pid` polls the queue. */
export async function hasPoller(
  connection: Connection,
  input: { namespace: string; queue: string; pid: number },
): Promise<boolean> {
  const { TaskQueueType } = enums
  const types = [TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY]
  for (const taskQueueType of types) {
    const { pollers } = await connection.workflowService.describeTaskQueue({
      namespace: input.namespace,
      taskQueue: { name: input.queue },
      taskQueueType,
    })
    // Workers identify themselves as `pid@host`; the pollers of a killed predecessor stay listed for minutes.
    if (pollers?.some(({ identity }) => identity?.startsWith(`${input.pid}@`))) return true
  }
  return false
}

async function readFacts(connection: Connection, namespace: string): Promise<NamespaceFacts> {
  const [description, attributes, system] = await Promise.all([
    connection.workflowService.describeNamespace({ namespace }),
    connection.operatorService.listSearchAttributes({ namespace }),
    connection.workflowService.getSystemInfo({}),
  ])
  return {
    serverVersion: system.serverVersion ?? 'unknown',
    retentionDays: Number(description.config?.workflowExecutionRetentionTtl?.seconds ?? 0) / 86_400,
    missingAttributes: missingFrom(attributes),
  }
}

async function withConnection<T>(input: NamespaceInput, use: (connection: Connection) => Promise<T>): Promise<T> {
  const { timeoutMs = 10_000 } = input
  const settings = readTemporalSettings(process.env, { address: input.address, namespace: input.namespace })
  const { address, namespace, credentials } = settings
  let connection: Connection | undefined
  try {
    connection = await Connection.connect({ address, connectTimeout: timeoutMs, ...credentials })
    return await connection.withDeadline(Date.now() + timeoutMs, () => use(connection as Connection))
  } catch (cause) {
    if (isLonghaulError(cause)) throw cause
    const answer = explainAnswer(settings, cause)
    if (answer !== null) throw answer
    // Without a connection the client reports only a timeout.
    if (connection === undefined) throw unreachableTemporal(address, await probeTemporal(settings), cause)
    throw new LonghaulError({
      code: 'Temporal.Unreachable',
      message: `The Temporal server at ${address} did not answer about the namespace ${namespace}: ${(cause as Error).message}`,
      cause,
    })
  } finally {
    await connection?.close()
  }
}

function valueType(name: string): proto.temporal.api.enums.v1.IndexedValueType {
  const types = enums.IndexedValueType
  const byName: Record<string, proto.temporal.api.enums.v1.IndexedValueType> = {
    Keyword: types.INDEXED_VALUE_TYPE_KEYWORD,
    Int: types.INDEXED_VALUE_TYPE_INT,
    Double: types.INDEXED_VALUE_TYPE_DOUBLE,
    Bool: types.INDEXED_VALUE_TYPE_BOOL,
    Text: types.INDEXED_VALUE_TYPE_TEXT,
    Datetime: types.INDEXED_VALUE_TYPE_DATETIME,
    KeywordList: types.INDEXED_VALUE_TYPE_KEYWORD_LIST,
  }
  return byName[name] ?? types.INDEXED_VALUE_TYPE_KEYWORD
}
