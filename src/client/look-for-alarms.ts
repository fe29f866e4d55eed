/** What a watch asks the server: counters of schedules, ends of runs, and what keeps open runs from making progress. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AlarmLook, AlarmRules, BlockedRun } from '../contracts/alarms.types.ts'
import { findBlockers } from './blockers/find-blockers.ts'
import { CALL_TIMEOUT_MS, type LonghaulConnection } from './connect.ts'
import { type ListedRun, listRuns } from './list-runs.ts'
import { listSchedules } from './schedules.ts'
import { toOutcome } from './watch-run.ts'

/** Each is asked of the server in turn, a big one on a slow server for a minute: all of them within one attempt at the look. */
const MOST_RUNS = 20
/** Ends of three days at most. */
const MOST_ENDED = 100
/** Of a run: a wait that many episodes share is seen in a part of them. */
const MOST_WORKFLOWS = 200

export interface LookForAlarmsInput {
  connection: LonghaulConnection
  /** Runs that ended earlier raise no alarm. */
  since: Date
  runs: AlarmRules['runs']
  blockerMs: number
}

/** No worker is needed for any of it but that which calls. */
export async function lookForAlarms({ connection, since, runs, blockerMs }: LookForAlarmsInput): Promise<AlarmLook> {
  const byClock = runs === 'scheduled' ? ['TemporalScheduledById IS NOT NULL'] : []
  const closed = `ExecutionStatus IN ('Failed', 'TimedOut', 'Terminated') AND CloseTime > '${since.toISOString()}'`
  const ended = await listRuns({ connection, filter: [closed, ...byClock].join(' AND '), limit: MOST_ENDED })
  const open = await listRuns({
    connection,
    open: true,
    ...(byClock[0] === undefined ? {} : { filter: byClock[0] }),
    limit: MOST_RUNS + 1,
  })
  const blocked: BlockedRun[] = []
  for (const run of open.slice(0, MOST_RUNS)) blocked.push(await blockersOf(connection, run, blockerMs))
  return {
    schedules: (await listSchedules({ connection })).map(({ id, createdAt, skippedOverlap, missedCatchup }) => ({
      id,
      createdAt: createdAt.toISOString(),
      skippedOverlap,
      missedCatchup,
    })),
    ended: ended.map(({ run, workflowId, status, closedAt }) => ({
      run,
      workflowId,
      status,
      at: (closedAt ?? since).toISOString(),
    })),
    blocked: blocked.filter(({ blockers }) => blockers.length > 0),
    notLookedAt: Math.max(0, open.length - MOST_RUNS),
  }
}

/** A run that ended meanwhile, or that the server cannot describe now, keeps no other from being looked at. */
async function blockersOf(connection: LonghaulConnection, run: ListedRun, blockerMs: number): Promise<BlockedRun> {
  const { workflowId } = run
  try {
    const { blockers } = await findBlockers({
      connection,
      workflowId,
      longerThanMs: blockerMs,
      maxWorkflows: MOST_WORKFLOWS,
    })
    return {
      run: run.run,
      workflowId,
      blockers: blockers.map(({ on, doing, since, count, error, toDo }) => ({
        on,
        doing,
        since,
        count,
        code: error?.code ?? null,
        toDo,
      })),
    }
  } catch {
    return { run: run.run, workflowId, blockers: [] }
  }
}

/** Code and message of the failure that ended a run. */
export async function reasonOfEnd(connection: LonghaulConnection, workflowId: string): Promise<string> {
  const handle = connection.client.workflow.getHandle(workflowId)
  const late = sleep(CALL_TIMEOUT_MS, 'the server did not say why', { ref: false })
  const reason = toOutcome(handle.result()).then(
    (outcome) => {
      if (outcome.status === 'failed') return `${outcome.code}: ${outcome.message}`
      return 'message' in outcome ? `${outcome.status}: ${outcome.message}` : `it is ${outcome.status} now`
    },
    () => 'the server did not say why',
  )
  return Promise.race([reason, late])
}
