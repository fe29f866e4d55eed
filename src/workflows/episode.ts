import {
  CancellationScope,
  condition,
  log,
  patched,
  setCurrentDetails,
  setWorkflowOptions,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { ArtifactRef } from '../contracts/artifacts.types.ts'
import type { EpisodeProgress, RecordedEnding } from '../contracts/activities.types.ts'
import { assertNever } from '../contracts/errors.ts'
import type { Disposition } from '../contracts/episodes.types.ts'
import type { FailureCode } from '../contracts/failure-codes.ts'
import type { SandboxHandle } from '../contracts/sandbox.types.ts'
import type { EpisodeInput, EpisodeOrder, EpisodeResult } from '../contracts/workflows.types.ts'
import { type AfterLoss, judgeLosses, mayBeOwnDoing } from '../domain/failure-answers.ts'
import { closingActivities, control, grading, hostActivities, placement } from './activity-proxies.ts'
import { decideAfter, failRun } from './failures.ts'
import { requireResult } from './require-result.ts'
import { receiveSignal } from './receive-signal.ts'
import { controlSignal, type RunControl, whilePaused } from './run-control.ts'
import { outcomeAttributes } from './search-attributes.ts'
import { endsInItsBuild } from './versioning.ts'

interface Steering extends RunControl {
  stepHeartbeatS: number | undefined
}

type Played =
  | { kind: 'ended'; disposition: Disposition; patch: ArtifactRef | null }
  /** A hard pause lasted too long, or the host is drained: the sandbox is closed, and the turns are recorded. */
  | { kind: 'held' }
  /** An earlier execution has played and recorded the episode. */
  | { kind: 'result'; result: EpisodeResult }
  /** The sandbox is gone, or is no longer in the episode's state. Another placement may help. */
  | { kind: 'lost'; failure: FailureCode }
  /** The same step would fail again, so the group replaces the episode. */
  | { kind: 'infra'; failure: FailureCode }

/**
 * One attempt of one policy at one task. Input: references; children: none; never continues as new (80 turns stay under 100 events).
 * Opens a sandbox on any host, advances turn by turn there, captures the patch, and grades it in a fresh container. A policy that ends
 * its sandbox gets a second one, and fails if it ends that too. A hard pause of the run holds the episode before its next step; a
 * drained host hands it to another one. On cancel the sandbox is closed and the episode recorded as `cancelled`.
 */
export async function episode({ stepHeartbeatS, ...input }: EpisodeOrder): Promise<EpisodeResult> {
  try {
    const result = await playAndGrade(input, stepHeartbeatS)
    upsertSearchAttributes(outcomeAttributes(result))
    setCurrentDetails(`**${result.disposition}** · ${result.verdict ?? 'not graded'} · ${result.turns} turns`)
    return result
  } catch (error) {
    if (decideAfter(error).kind === 'cancelled') {
      await CancellationScope.nonCancellable(() =>
        control.recordUngraded({ ...input, disposition: 'cancelled', failure: null }),
      )
    }
    throw error
  }
}

// An episode lasts hours and not days, so it ends in the build that began it, whatever a newer build changes.
setWorkflowOptions(endsInItsBuild, episode)

async function playAndGrade(input: EpisodeInput, stepHeartbeatS: number | undefined): Promise<EpisodeResult> {
  const losses: FailureCode[] = []
  const steering: Steering = { paused: false, stopAfterIteration: null, stepHeartbeatS }
  receiveSignal(controlSignal, (next) => {
    Object.assign(steering, next)
  })
  for (let number = 1; ; number++) {
    // Episodes that began before this rule are placed at once, and hold with the sandbox.
    if (steering.paused && patched('placed-after-pause')) await whilePaused(steering)
    const played = await playInSandbox(input, number, steering)
    if (played.kind === 'held') {
      await whilePaused(steering)
      continue
    }
    if (played.kind === 'result') return played.result
    if (played.kind === 'ended') return grade(input, played)
    const { failure } = played
    if (played.kind === 'infra') return recordUngraded(input, 'infra', failure)
    losses.push(failure)
    switch (judge(losses)) {
      case 'own-doing':
        return recordUngraded(input, 'agent-gave-up', failure)
      case 'infra':
        return recordUngraded(input, 'infra', failure)
      default:
        log.warn('sandbox lost, placing the episode again', { placement: number, failure })
    }
  }
}

/** Episodes that began before this rule keep the earlier one, which attributes a broken journal to infrastructure. */
function judge(losses: readonly FailureCode[]): AfterLoss {
  const last = losses.at(-1)
  if (last === undefined || !(mayBeOwnDoing(last) || last === 'Sandbox.Diverged') || patched('own-doing')) {
    return judgeLosses(losses)
  }
  return last === 'Sandbox.Behind' ? judgeLosses(losses.map(() => 'Sandbox.Lost')) : 'infra'
}

/** Runs one placement. Returns how the episode ended, or that the sandbox was lost; every other failure is thrown. */
async function playInSandbox(input: EpisodeInput, number: number, steering: Steering): Promise<Played> {
  let sandbox: SandboxHandle | null = null
  try {
    const opened = requireResult('openSandbox', await openSandbox(input, number))
    if ('kind' in opened) return opened
    sandbox = opened
    const disposition = await advanceToEnd(input, sandbox, number, steering)
    if (disposition === 'held' || disposition === 'moving') return { kind: 'held' }
    const patch = disposition === 'submitted' ? requireResult('captureSubmission', await capture(input, sandbox)) : null
    return { kind: 'ended', disposition, patch }
  } catch (error) {
    const decision = decideAfter(error)
    switch (decision.kind) {
      case 're-place':
        // The host was drained at the moment of the request, so no sandbox was lost.
        if (decision.code === 'Host.Closed') return { kind: 'held' }
        // No command of the policy has run before the sandbox is open.
        return {
          kind: 'lost',
          failure: sandbox === null && mayBeOwnDoing(decision.code) ? 'Sandbox.Lost' : decision.code,
        }
      case 'infra':
        return { kind: decision.code === 'Sandbox.Diverged' ? 'lost' : 'infra', failure: decision.code }
      case 'fail-run':
        throw failRun(decision.code, decision.message)
      case 'cancelled':
        throw error
      default:
        return assertNever(decision)
    }
  } finally {
    if (sandbox !== null) await close(sandbox)
  }
}

function openSandbox(input: EpisodeInput, number: number): Promise<SandboxHandle | RecordedEnding> {
  return placement.openSandbox.executeWithOptions({ summary: `${input.taskId} · open · placement ${number}` }, [
    { ...input, placement: number, owner: workflowInfo().workflowId },
  ])
}

async function advanceToEnd(
  input: EpisodeInput,
  sandbox: SandboxHandle,
  number: number,
  steering: Steering,
): Promise<Disposition | 'held' | 'moving'> {
  const host = hostActivities(sandbox.hostQueue)
  const { stepHeartbeatS } = steering
  const patience = stepHeartbeatS === undefined ? {} : { heartbeatTimeout: `${stepHeartbeatS}s` as const }
  let progress: EpisodeProgress = { turns: 0, disposition: null }
  for (let step = 1; progress.disposition === null; step++) {
    // An idle sandbox ends itself ten minutes after its last request, so one that is held for longer is closed before.
    if (steering.paused && !(await condition(() => !steering.paused, '5 minutes'))) return 'held'
    const advanced = await host.advanceEpisode.executeWithOptions(
      { ...patience, summary: `${input.taskId} · from turn ${progress.turns} · ${input.policy}` },
      [{ ...input, sandbox, step, placement: number }],
    )
    progress = requireResult('advanceEpisode', advanced)
    if (progress.moving === true) return 'moving'
  }
  return progress.disposition
}

function capture(input: EpisodeInput, sandbox: SandboxHandle): Promise<ArtifactRef> {
  return hostActivities(sandbox.hostQueue).captureSubmission.executeWithOptions(
    { summary: `${input.taskId} · capture patch` },
    [{ ...input, sandbox }],
  )
}

/** Never skipped and not cancellable. If the host is dead, the reaper removes the sandbox. */
async function close(sandbox: SandboxHandle): Promise<void> {
  await CancellationScope.nonCancellable(async () => {
    try {
      await closingActivities(sandbox.hostQueue).closeSandbox.executeWithOptions({ summary: 'close sandbox' }, [
        { name: sandbox.name },
      ])
    } catch (error) {
      log.warn('sandbox not closed; its lease will end it', { name: sandbox.name, error: String(error) })
    }
  })
}

/** If infrastructure prevents a verdict, the episode is recorded as could-not-grade and the group replaces it. */
async function grade(
  input: EpisodeInput,
  { disposition, patch }: Extract<Played, { kind: 'ended' }>,
): Promise<EpisodeResult> {
  try {
    const graded = await grading.gradeSubmission.executeWithOptions({ summary: `${input.taskId} · grade` }, [
      { ...input, disposition, patch, owner: workflowInfo().workflowId },
    ])
    return requireResult('gradeSubmission', graded)
  } catch (error) {
    const decision = decideAfter(error)
    switch (decision.kind) {
      case 're-place':
      case 'infra':
        return recordUngraded(input, disposition, decision.code)
      case 'fail-run':
        throw failRun(decision.code, decision.message)
      case 'cancelled':
        throw error
      default:
        return assertNever(decision)
    }
  }
}

async function recordUngraded(input: EpisodeInput, disposition: Disposition, failure: string): Promise<EpisodeResult> {
  const options = { summary: `${input.taskId} · ${disposition} · ${failure}` }
  const ended = await control.recordUngraded.executeWithOptions(options, [{ ...input, disposition, failure }])
  return requireResult('recordUngraded', ended)
}
