/** What `longhaul view` reads from the Temporal server. */
import { setTimeout as sleep } from 'node:timers/promises'
import { findBlockers, findRun, isOpen, listRuns, type LonghaulConnection, readHistory } from '../client/index.ts'
import type { ExecutionHistory } from '../contracts/histories.types.ts'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import type { Answer, BlockersAnswer, HistoryQuestion, RunSource, RunState } from '../viewer/run-source.ts'

/** If nothing listens, connecting fails after three seconds. */
const CONNECT_MS = 5_000
/** Short, since the records are already shown. */
const HISTORY_MS = 2_000
/** Thousands of runs take a second. */
const RUNS_MS = 5_000
/** Older ones are shown from their records alone. */
const MOST_RUNS = 5_000
/** A thousand open workflows take seconds. */
const BLOCKERS_MS = 20_000
/** An open connection closes at once. */
const CLOSE_MS = 1_000
/** Pause after a failed connection, since pages ask repeatedly. */
const PAUSE_MS = 10_000

export interface TemporalSource extends RunSource {
  close(): Promise<void>
}

/**
 * Answers the viewer from the Temporal server. Connects at the first question, so that the viewer starts without a server, finds one that
 * is started later, and says meanwhile why there is no answer.
 */
export function temporalSource(connect: () => Promise<LonghaulConnection>): TemporalSource {
  let connecting: Promise<LonghaulConnection> | null = null
  let refusal: { why: string; untilMs: number } | null = null

  const connection = async (): Promise<LonghaulConnection> => {
    if (refusal !== null && Date.now() < refusal.untilMs) {
      throw new LonghaulError({ code: 'Temporal.Unreachable', message: refusal.why })
    }
    connecting ??= connect().catch((error: unknown) => {
      connecting = null
      refusal = { why: whyOf(error), untilMs: Date.now() + PAUSE_MS }
      throw error
    })
    return connecting
  }
  const ask = async <T>(
    timeoutMs: number,
    work: (connection: LonghaulConnection, deadlineMs: number) => Promise<T>,
  ): Promise<Answer<T>> => {
    try {
      const found = await within(CONNECT_MS, connection())
      return { ok: true, value: await within(timeoutMs, work(found, Date.now() + timeoutMs)) }
    } catch (error) {
      return { ok: false, why: whyOf(error) }
    }
  }

  return {
    history: (question) => ask(HISTORY_MS, (found, deadlineMs) => historiesOf(found, { ...question, deadlineMs })),
    runs: () => ask(RUNS_MS, statesOfRuns),
    blockers: (run) => ask(BLOCKERS_MS, (found) => blockersOf(found, run)),
    async close() {
      if (connecting === null) return
      const closed = connecting.then((open) => open.close())
      // A server that accepts connections and never answers would delay the exit by half a minute.
      await within(CLOSE_MS, closed).catch(() => undefined)
    },
  }
}

/** A rejection that comes too late must not count as unhandled. */
async function within<T>(timeoutMs: number, asked: Promise<T>): Promise<T> {
  asked.catch(() => undefined)
  const answered = new AbortController()
  const late = sleep(timeoutMs, undefined, { signal: answered.signal, ref: false }).then(() => {
    throw new LonghaulError({
      code: 'Temporal.Unreachable',
      message: `the Temporal server did not answer within ${timeoutMs / 1000} s`,
    })
  })
  late.catch(() => undefined)
  try {
    return await Promise.race([asked, late])
  } finally {
    answered.abort()
  }
}

/** The named executions, of the first id that the server knows. */
async function historiesOf(
  connection: LonghaulConnection,
  { workflowIds, runIds, deadlineMs }: HistoryQuestion & { deadlineMs: number },
): Promise<ExecutionHistory[]> {
  for (const workflowId of workflowIds) {
    const asked = runIds.length === 0 ? [undefined] : runIds
    const found = await Promise.all(
      asked.map((runId) =>
        readHistory({ connection, workflowId, deadlineMs, ...(runId === undefined ? {} : { runId }) }),
      ),
    )
    const known = found.filter((history) => history !== null)
    if (known.length > 0) return known
  }
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `the Temporal server at ${connection.address} has no history of this episode (closed workflows are kept for as long as the namespace ${connection.namespace} retains them)`,
  })
}

async function statesOfRuns(connection: LonghaulConnection): Promise<RunState[]> {
  const listed = await listRuns({ connection, limit: MOST_RUNS })
  return listed.flatMap(({ run, status, startedAt, closedAt }) =>
    run === null ? [] : [{ run, state: status.toLowerCase().replaceAll('_', '-'), startedAt, endedAt: closedAt }],
  )
}

async function blockersOf(connection: LonghaulConnection, run: string): Promise<BlockersAnswer | null> {
  const { workflowId, status } = await findRun({ connection, run })
  if (!isOpen(status)) return null
  const { blockers, notLookedAt } = await findBlockers({ connection, workflowId })
  return { blockers, notLookedAt }
}

function whyOf(error: unknown): string {
  if (isLonghaulError(error)) return error.message
  return error instanceof Error ? error.message : String(error)
}
