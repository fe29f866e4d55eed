import { ParentClosePolicy, patched, setWorkflowOptions, workflowInfo } from '@temporalio/workflow'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { EpisodeResult, PromptGroupInput, PromptGroupResult } from '../contracts/workflows.types.ts'
import { control } from './activity-proxies.ts'
import { endByHand, withCode } from './failures.ts'
import { receiveSignal } from './receive-signal.ts'
import { requireResult } from './require-result.ts'
import { runChild } from './run-child.ts'
import { episodeAttributes } from './search-attributes.ts'
import { episode } from './episode.ts'
import { runConcurrently } from './run-concurrently.ts'
import { controlSignal, holdEarlier, passOnToOpen, type RunControl, whilePaused } from './run-control.ts'
import { endsInItsBuild } from './versioning.ts'

/**
 * The G episodes of one task, run concurrently: the unit over which DAPO normalises. Children: `episode`. Episodes lost to
 * infrastructure are replaced under the next free index until G are valid or the bound is reached; the ledger excludes them. A
 * restarted group counts recorded episodes and replaces those that the earlier execution lost or cancelled. An episode that a person
 * cancels alone is replaced too; one that a person terminates continues from its records. A hard pause of the run holds its episodes.
 * Never continues as new. On cancel, or when the run fails, every child first closes its sandbox and records its outcome.
 */
export async function promptGroup(input: PromptGroupInput): Promise<PromptGroupResult> {
  let nextIndex = 0
  const results: EpisodeResult[] = []
  /** Episodes lost by an earlier execution do not use up this execution's replacements. */
  let bound = input.groupSize + input.maxReplacements
  const steering: RunControl = { paused: false, stopAfterIteration: null }
  const open = new Set<number>()
  receiveSignal(controlSignal, async (next) => {
    Object.assign(steering, next)
    const episodes = [...open].map((index) => {
      const episodeId = workflowIds.episode(workflowInfo().workflowId, index)
      return passOnToOpen(
        episodeId,
        () => open.has(index),
        () => steering,
      )
    })
    await Promise.all(episodes)
  })

  const runNext = async (): Promise<boolean> => {
    await whilePaused(steering)
    if (nextIndex >= bound) return false
    const index = nextIndex++
    open.add(index)
    const result = await playEpisode(input, index, steering).finally(() => open.delete(index))
    // Neither is a failure of this execution.
    if (result.recalled === true && !isValid(result)) bound += 1
    else {
      if (result.disposition === 'cancelled') bound += 1
      results.push(result)
    }
    return !isValid(result)
  }
  try {
    await runConcurrently({ concurrency: () => input.groupSize, onFailure: 'cancel', runNext })
  } catch (error) {
    throw withCode(error)
  }
  return {
    taskId: input.taskId,
    valid: results.filter(isValid).length,
    episodes: results.length,
    infra: results.filter((result) => !isValid(result)).length,
    resolved: results.filter((result) => result.verdict === 'resolved').length,
    turns: results.reduce((sum, result) => sum + (isValid(result) ? result.turns : 0), 0),
    failure: results.findLast((result) => !isValid(result))?.failure ?? null,
    endings: countEndings(results),
  }
}

// A group stays in the build that began its episodes.
setWorkflowOptions(endsInItsBuild, promptGroup)

function countEndings(results: readonly EpisodeResult[]): Record<string, number> {
  const endings: Record<string, number> = {}
  for (const { verdict, disposition } of results) {
    const ending = verdict === 'could-not-grade' && disposition !== 'infra' ? verdict : disposition
    endings[ending] = (endings[ending] ?? 0) + 1
  }
  return endings
}

/** Valid siblings have a verdict. Episodes with `infra` or `could-not-grade` have no reward and count in no mean. */
function isValid(result: EpisodeResult): boolean {
  return result.verdict === 'resolved' || result.verdict === 'unresolved'
}

async function playEpisode(input: PromptGroupInput, index: number, steering: RunControl): Promise<EpisodeResult> {
  const { run, stage, iteration, policy, suite, taskId, stepHeartbeatS } = input
  const args = { run, stage, iteration, policy, suite, taskId, index }
  const workflowId = workflowIds.episode(workflowInfo().workflowId, index)
  try {
    return await runChild(
      episode,
      {
        workflowId,
        args: [{ ...args, ...(stepHeartbeatS === undefined ? {} : { stepHeartbeatS }) }],
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        typedSearchAttributes: episodeAttributes(args),
        staticSummary: `${taskId} · ${policy} · episode ${index}`,
      },
      holdEarlier(workflowId, steering, () => steering),
    )
  } catch (error) {
    const ended = endByHand(error)
    // Groups that began before this rule fail with such an episode.
    if (ended === null || !patched('episode-ended-by-hand')) throw error
    if (ended === 'terminated') {
      await whilePaused(steering)
      return playEpisode(input, index, steering)
    }
    // The episode itself has recorded its end; of one that had just finished, the result counts.
    const options = { summary: `${taskId} · episode ${index} · cancelled` }
    const cancelled = await control.recordUngraded.executeWithOptions(options, [
      { ...args, disposition: 'cancelled', failure: 'Run.EndedByHand' },
    ])
    return requireResult('recordUngraded', cancelled)
  }
}
