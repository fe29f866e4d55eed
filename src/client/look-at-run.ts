import type { RolloutReport, RunProgress } from '../contracts/workflows.types.ts'
import { CALL_TIMEOUT_MS } from './connect.ts'
import { queryProgress, queryRollout, type RunAddress } from './control-run.ts'
import { attributesOf, type ListedRun } from './list-runs.ts'
import { countEpisodes, type EpisodeCounts } from './watch-run.ts'

/** How far a run is, as the run or the server tells it. */
export interface RunLook {
  /** `run`: its own answer. `server`: no control worker has answered, the server's index and records tell what they know. */
  source: 'run' | 'server'
  /** Null where no worker has answered. */
  progress: RunProgress | null
  /** The open rollout at this moment, or as the run was last told. */
  rollout: RolloutReport | null
  attributes: ListedRun['attributes']
  /** Open children of the root. */
  open: { workflowId: string; type: string }[]
  episodes: EpisodeCounts | null
}

/** Asks the run for three seconds, then the server alone: a wedged or dead worker takes the details, never the answer. */
export async function lookAtRun(address: RunAddress): Promise<RunLook> {
  const { connection, workflowId } = address
  const described = connection.client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
    connection.client.workflow.getHandle(workflowId).describe(),
  )
  const [progress, { searchAttributes, raw }] = await Promise.all([queryProgress(address), described])
  const attributes = attributesOf(searchAttributes)
  const run = progress?.run ?? attributes['TrainRun']
  const told = progress?.rollout ?? null
  const [episodes, now] = await Promise.all([
    typeof run === 'string' ? countEpisodes(connection, run) : null,
    told === null ? null : queryRollout({ connection, workflowId: told.workflowId }),
  ])
  return {
    source: progress === null ? 'server' : 'run',
    progress,
    rollout: now ?? told,
    attributes,
    open: (raw.pendingChildren ?? []).map((child) => ({
      workflowId: child.workflowId ?? '',
      type: child.workflowTypeName ?? '',
    })),
    episodes,
  }
}
