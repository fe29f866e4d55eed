import type { WorkflowExecutionDescription } from '@temporalio/client'
import type { RolloutReport, RunProgress, WorkCount } from '../contracts/workflows.types.ts'
import { type PendingActivity, readActivities } from './blockers/pending-activities.ts'
import { CALL_TIMEOUT_MS, isNotFound, type LonghaulConnection } from './connect.ts'
import { queryCount, queryRollout } from './control-run.ts'

/** Current work of a run, in more detail than its own report. */
export interface RunWork {
  /** Progress of the open gate (tasks) or grading (patches); null if neither is open or no worker answered. */
  count: WorkCount | null
  /** The open rollout at this moment. */
  rollout: RolloutReport | null
  /** Activities of the run and its stages without episodes: gates, training jobs, batches, policies. Oldest first. */
  activities: OpenActivity[]
}

export interface OpenActivity {
  activity: string
  /** ms since 1970. */
  sinceMs: number
  /** What it reports to wait for; null if it waits for nothing or no worker has taken it. */
  doing: string | null
  /** False until a worker has taken it. */
  isStarted: boolean
  /** Details of its last heartbeat, for example step and loss of a job. */
  facts: object | null
}

type Description = WorkflowExecutionDescription['raw']

/** Levels of workflows between a root and its episodes. */
const STAGES = new Set(['evaluate', 'rejectionFineTune', 'reinforce', 'rollout', 'gateTasks'])
/** A gate has twenty parts open at most. */
const MOST_WORKFLOWS = 32

/**
 * Descends from a root to its open stage, gate or rollout in a few calls. The server describes the workflows; gates and rollouts answer queries.
 * @param input.root the root as the server has just described it
 */
export async function lookAtWork({
  connection,
  root,
  progress,
}: {
  connection: LonghaulConnection
  root: Description
  progress: RunProgress | null
}): Promise<RunWork> {
  const nowMs = Date.now()
  const found: Found = { activities: [], counts: [], rollout: null }
  const workflowId = root.workflowExecutionInfo?.execution?.workflowId ?? ''
  found.activities.push(...(await readActivities({ client: connection.client, workflowId, nowMs }, root)))
  let level = childrenOf(root)
  for (let looked = 0; level.length > 0 && looked < MOST_WORKFLOWS; looked += level.length) {
    const chosen = level.slice(0, MOST_WORKFLOWS - looked)
    level = (await Promise.all(chosen.map((child) => lookAtChild({ connection, child, nowMs, found })))).flat()
  }
  const count = sumOf([...(progress?.work === undefined ? [] : [progress.work]), ...found.counts])
  return { count, rollout: found.rollout, activities: found.activities.map(toOpenActivity).toSorted(byAge) }
}

interface Found {
  activities: PendingActivity[]
  counts: WorkCount[]
  rollout: RolloutReport | null
}

interface Child {
  workflowId: string
  type: string
}

/** @returns its own children that are stages */
async function lookAtChild({
  connection,
  child: { workflowId, type },
  nowMs,
  found,
}: {
  connection: LonghaulConnection
  child: Child
  nowMs: number
  found: Found
}): Promise<Child[]> {
  const { client, namespace } = connection
  // Thousands of groups may be open below it.
  if (type === 'rollout') {
    found.rollout = await queryRollout({ connection, workflowId })
    return []
  }
  try {
    const [description, count] = await Promise.all([
      client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
        client.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } }),
      ),
      type === 'gateTasks' ? queryCount({ connection, workflowId }) : null,
    ])
    found.activities.push(...(await readActivities({ client, workflowId, nowMs }, description)))
    if (count !== null) found.counts.push(count)
    return childrenOf(description)
  } catch (error) {
    // It closed between the two calls, or is not started yet.
    if (isNotFound(error)) return []
    throw error
  }
}

function childrenOf({ pendingChildren }: Description): Child[] {
  return (pendingChildren ?? []).flatMap(({ workflowId, workflowTypeName: type }) =>
    typeof workflowId === 'string' && typeof type === 'string' && STAGES.has(type) ? [{ workflowId, type }] : [],
  )
}

/** A gate counts the parts that have ended, and each open part its own tasks: the first one knows how many there are. */
function sumOf([first, ...parts]: readonly WorkCount[]): WorkCount | null {
  if (first === undefined) return null
  return parts.reduce(
    (sum, { done, failed }) => ({ ...sum, done: sum.done + done, failed: sum.failed + failed }),
    first,
  )
}

function toOpenActivity({ activity, scheduledMs, startedMs, state, heartbeat }: PendingActivity): OpenActivity {
  const isStarted = state === 'started'
  return {
    activity,
    sinceMs: isStarted ? (startedMs ?? scheduledMs) : scheduledMs,
    doing: isStarted ? (heartbeat?.wait?.doing ?? null) : null,
    isStarted,
    facts: isStarted ? (heartbeat?.facts ?? null) : null,
  }
}

function byAge(left: OpenActivity, right: OpenActivity): number {
  return left.sinceMs - right.sinceMs
}
