import { LonghaulError } from '../contracts/errors.ts'
import { CALL_TIMEOUT_MS, IS_OPEN, isNotFound, isOpen, type LonghaulConnection, TRAIN_RUN } from './connect.ts'
import { grpcStatus } from '../platform/temporal-reach.ts'
import { listByName, ROOT_IDS } from './start.ts'

/** The server's own limit. */
const MAX_ID_LENGTH = 1_000

export interface FoundRun {
  workflowId: string
  type: string
  /** `RUNNING`, `COMPLETED`, `FAILED`, … as Temporal says it. */
  status: string
  startedAt: Date
  closedAt: Date | null
}

/**
 * Finds a run by its name or by the id of its workflow. A root that was started from the Temporal UI may have any id; it is found
 * by the run's name in its search attribute, also where it continues a run whose root of the usual id has ended.
 * @throws LonghaulError `Config.NotFound`
 */
export async function findRun({ connection, run }: { connection: LonghaulConnection; run: string }): Promise<FoundRun> {
  // The server would call such ids malformed instead of unknown.
  if (run === '' || run.length > MAX_ID_LENGTH) return notFound(run.slice(0, 100))
  return connection.client.withDeadline(Date.now() + CALL_TIMEOUT_MS, async () => {
    let ended: FoundRun | null = null
    for (const workflowId of [...Object.values(ROOT_IDS).map((idOf) => idOf(run)), run]) {
      const found = await describe(connection, workflowId)
      if (found !== null && isOpen(found.status)) return found
      ended ??= found
    }
    const named = await findByAttribute(connection, run)
    return named !== null && (ended === null || isOpen(named.status)) ? named : (ended ?? notFound(run))
  })
}

/**
 * An open workflow of a run and the number of open ones; null if none is open. Includes roots of any id and their children, because a root that was
 * terminated may leave children that still write records.
 */
export async function findOpenWork({
  connection,
  run,
  lastPlayer = null,
}: {
  connection: LonghaulConnection
  run: string
  /** The root that played the run last, by the run's records: it may have any id. @default not known */
  lastPlayer?: string | null
}): Promise<{ workflowId: string; count: number } | null> {
  const { client } = connection
  return client.withDeadline(Date.now() + CALL_TIMEOUT_MS, async () => {
    // The index of the server lags by a moment; the ids of roots are known at once.
    const ids = Object.values(ROOT_IDS).map((idOf) => idOf(run))
    for (const workflowId of ids) {
      const found = await describe(connection, workflowId)
      if (found !== null && isOpen(found.status)) return { workflowId, count: 1 }
    }
    if (
      lastPlayer !== null &&
      !ids.includes(lastPlayer) &&
      (await isPlaying(connection, { run, workflowId: lastPlayer }))
    ) {
      return { workflowId: lastPlayer, count: 1 }
    }
    const query = `TrainRun = '${run}' AND ${IS_OPEN}`
    try {
      const { count } = await client.workflow.count(query)
      if (count === 0) return null
      for await (const { workflowId } of client.workflow.list({ query, pageSize: 1 })) return { workflowId, count }
    } catch (error) {
      // gRPC 3: the namespace lacks the search attribute, so no workflow has it.
      if (grpcStatus(error) !== 3) throw error
    }
    return null
  })
}

/** A workflow with such an id may play another run by now. One that has just begun has not said yet what it plays. */
async function isPlaying(
  { client }: LonghaulConnection,
  { run, workflowId }: { run: string; workflowId: string },
): Promise<boolean> {
  try {
    const { status, typedSearchAttributes } = await client.workflow.getHandle(workflowId).describe()
    const named = typedSearchAttributes.get(TRAIN_RUN)
    return isOpen(status.name) && (named === undefined || named === run)
  } catch (error) {
    if (isNotFound(error)) return false
    throw error
  }
}

async function describe({ client }: LonghaulConnection, workflowId: string): Promise<FoundRun | null> {
  try {
    const { type, status, startTime, closeTime } = await client.workflow.getHandle(workflowId).describe()
    return { workflowId, type, status: status.name, startedAt: startTime, closedAt: closeTime ?? null }
  } catch (error) {
    if (isNotFound(error)) return null
    throw error
  }
}

async function findByAttribute(connection: LonghaulConnection, run: string): Promise<FoundRun | null> {
  // Evaluations inside a training run have the run's name too.
  const roots = (await listByName(connection, run)).filter(({ parentExecution }) => parentExecution === undefined)
  const all = roots.map(({ workflowId, type, status, startTime, closeTime }) => ({
    workflowId,
    type,
    status: status.name,
    startedAt: startTime,
    closedAt: closeTime ?? null,
  }))
  const open = all.filter(({ status }) => isOpen(status))
  const found = open.length > 0 ? open : all
  return found.find(({ type }) => type === 'trainAgent') ?? found[0] ?? null
}

function notFound(run: string): never {
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `No run is called ${JSON.stringify(run)} (closed runs are kept for as long as the Temporal namespace retains them); longhaul run list shows the existing runs`,
  })
}
