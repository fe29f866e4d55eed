import { isNotFound, type LonghaulConnection } from '../connect.ts'
import { type PendingActivity, type PendingWorkflowTask, readActivities, readWorkflowTask } from './run-picture.ts'

/** Everything open below one workflow. */
export interface RunPicture {
  activities: PendingActivity[]
  tasks: PendingWorkflowTask[]
  /** Open workflows that were looked at. */
  workflows: number
  /** Open workflows beyond the limit. */
  notLookedAt: number
}

export interface WalkInput {
  connection: LonghaulConnection
  workflowId: string
  /** Workflows described at most, from the root down. */
  maxWorkflows: number
  nowMs: number
}

/** Calls under way at once: a description costs the server a few milliseconds, and other clients want their turn. */
const CONCURRENT = 16

/**
 * Describes a run's open workflows level by level. The server answers for all of them, so workers may be down. A run of paper
 * scale has thousands of episodes: past the limit they are counted, not asked.
 */
export async function walkRun({ connection, workflowId, maxWorkflows, nowMs }: WalkInput): Promise<RunPicture> {
  const picture: RunPicture = { activities: [], tasks: [], workflows: 0, notLookedAt: 0 }
  let level = [workflowId]
  while (level.length > 0) {
    const room = Math.max(0, maxWorkflows - picture.workflows)
    const chosen = level.slice(0, room)
    picture.notLookedAt += level.length - chosen.length
    picture.workflows += chosen.length
    const next: string[] = []
    const queue = [...chosen]
    const look = async (): Promise<void> => {
      for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
        next.push(...(await lookAt({ connection, workflowId: id, nowMs, picture })))
      }
    }
    await Promise.all(Array.from({ length: CONCURRENT }, look))
    level = next
  }
  return picture
}

/** @returns the open children */
async function lookAt({
  connection: { client, namespace },
  workflowId,
  nowMs,
  picture,
}: Omit<WalkInput, 'maxWorkflows'> & { picture: RunPicture }): Promise<string[]> {
  try {
    const description = await client.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } })
    picture.activities.push(...readActivities(workflowId, description, nowMs))
    const task = readWorkflowTask(workflowId, description)
    if (task !== null) picture.tasks.push(task)
    return (description.pendingChildren ?? []).flatMap(({ workflowId: id }) => (typeof id === 'string' ? [id] : []))
  } catch (error) {
    // It closed between the two calls, or waits to be started: its parent's own state says so.
    if (isNotFound(error)) return []
    throw error
  }
}
