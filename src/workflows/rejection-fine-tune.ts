import { ParentClosePolicy, setCurrentDetails } from '@temporalio/workflow'
import { stageOf } from '../contracts/episode-purpose.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { RejectionFineTuneInput, TrainingStageResult } from '../contracts/workflows.types.ts'
import { artifacts, control, publishing, training } from './activity-proxies.ts'
import { withCode } from './failures.ts'
import { requireResult } from './require-result.ts'
import { receiveSignal } from './receive-signal.ts'
import { runChild } from './run-child.ts'
import { rollout } from './rollout.ts'
import {
  childControl,
  controlSignal,
  pauseOnAlarm,
  passOnRequeue,
  requeueSignal,
  provenOf,
  type RunControl,
  steerEarlier,
  steerOpen,
  whilePaused,
} from './run-control.ts'

const STAGE = stageOf({ kind: 'rft' })

/**
 * Rejection fine-tuning: samples, keeps resolved episodes, trains on them slice by slice, and publishes. Children: one `rollout`. An
 * alarm of a job holds the stage before the next job. If no episode resolved, it returns the policy unchanged and says so. Never
 * continues as new.
 */
export async function rejectionFineTune(input: RejectionFineTuneInput): Promise<TrainingStageResult> {
  const { plan, suite } = input
  const { run } = plan
  const steering: RunControl = {
    paused: input.paused ?? false,
    stopAfterIteration: null,
    concurrency: input.concurrency ?? null,
  }
  const rolloutId = workflowIds.rollout(workflowIds.train(run), STAGE, 0)
  let openRollout: string | null = null
  receiveSignal(controlSignal, async (next) => {
    Object.assign(steering, next)
    await steerOpen(rolloutId, () => openRollout, steering)
  })
  receiveSignal(requeueSignal, (order) => passOnRequeue(rolloutId, order))
  try {
    const {
      collected,
      finished,
      evaluated: _,
      ...planned
    } = requireResult(
      'planIteration',
      await control.planIteration({
        run,
        stage: STAGE,
        iteration: 0,
        suite,
        policy: input.policy.version,
        ...provenOf(plan),
      }),
    )
    if (finished !== undefined) {
      return { policy: finished.policy ?? input.policy, iterations: 0, unpublished: true }
    }
    const coordinates = { run, stage: STAGE, iteration: 0 }
    if (collected !== true) {
      openRollout = rolloutId
      await runChild(
        rollout,
        {
          workflowId: rolloutId,
          args: () => [{ ...coordinates, policy: input.policy, suite, ...planned, ...childControl(plan, steering) }],
          parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
          staticSummary: `${planned.tasks} tasks × ${planned.groupSize} · ${input.policy.version}`,
        },
        steerEarlier(rolloutId, steering),
      )
      openRollout = null
    }
    const built = requireResult(
      'buildBatch',
      await artifacts.buildBatch({ ...coordinates, policy: input.policy, suite }),
    )
    setCurrentDetails(`${built.trajectories} of ${built.episodes} episodes kept, ${built.batches.length} training jobs`)

    let policy = input.policy
    for (const [slice, batch] of built.batches.entries()) {
      const summary = `rft · job ${slice + 1} of ${built.batches.length}`
      const job = await training.runTrainingJob.executeWithOptions({ summary }, [
        { ...coordinates, kind: 'rft', slice, batch, policy },
      ])
      policy = requireResult('runTrainingJob', job).policy
      if (job.hold !== undefined) {
        await pauseOnAlarm(steering, { stage: STAGE, iteration: slice + 1, why: job.hold })
        await whilePaused(steering)
      }
    }
    await publishing.publishPolicy({ run, policy })
    setCurrentDetails(`${built.trajectories} of ${built.episodes} episodes kept · **${policy.version}**`)
    return { policy, iterations: built.batches.length }
  } catch (error) {
    throw withCode(error)
  }
}
