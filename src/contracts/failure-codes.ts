/**
 * Every failure Longhaul can name, with what it means for the data.
 *
 * `countsAs` decides what happens to an episode that met the failure: **policy** = the agent's own doing, it trains;
 * **infra** = ours, the episode has no reward and leaves its group's mean, deviation and count; **user** = configuration
 * or input, the run stops and says what to change. `retryable` is read by activities: Temporal retries only where a
 * repetition can help.
 */
export const FAILURE_CODES = {
  // The receiver of alarms does not want them: a wrong address or secret.
  'Alarm.Refused': { retryable: false, countsAs: 'user' },
  'Alarm.Unavailable': { retryable: true, countsAs: 'infra' },
  'Artifact.Conflict': { retryable: false, countsAs: 'infra' },
  'Artifact.Corrupt': { retryable: false, countsAs: 'infra' },
  'Artifact.Missing': { retryable: false, countsAs: 'infra' },
  'Artifact.OutOfDisk': { retryable: true, countsAs: 'infra' },
  'Artifact.Unavailable': { retryable: true, countsAs: 'infra' },
  'Config.Invalid': { retryable: false, countsAs: 'user' },
  'Config.NotFound': { retryable: false, countsAs: 'user' },
  // A person cancelled or terminated one of a run's workflows: the same command continues the run from its records.
  'Run.EndedByHand': { retryable: false, countsAs: 'user' },
  'Run.PausedTooLong': { retryable: false, countsAs: 'user' },
  'Run.StillClosing': { retryable: false, countsAs: 'user' },
  'Run.RecipeConflict': { retryable: false, countsAs: 'user' },
  'Suite.Overlap': { retryable: false, countsAs: 'user' },
  'Suite.Unreachable': { retryable: false, countsAs: 'infra' },
  'Task.Invalid': { retryable: false, countsAs: 'user' },
  'Task.GateFailed': { retryable: false, countsAs: 'user' },
  'Model.Unavailable': { retryable: true, countsAs: 'infra' },
  'Model.Unreachable': { retryable: false, countsAs: 'user' },
  'Model.RateLimited': { retryable: true, countsAs: 'infra' },
  'Model.BadResponse': { retryable: true, countsAs: 'infra' },
  // One that Longhaul starts; the message says what to change.
  'Model.EngineFailed': { retryable: false, countsAs: 'user' },
  'Model.NotServed': { retryable: true, countsAs: 'infra' },
  'Model.Busy': { retryable: true, countsAs: 'infra' },
  'Model.ContextOverflow': { retryable: false, countsAs: 'policy' },
  'Model.NoTokenIds': { retryable: false, countsAs: 'user' },
  'Model.CanaryMismatch': { retryable: false, countsAs: 'infra' },
  'Model.Biased': { retryable: false, countsAs: 'user' },
  'Sandbox.EngineUnavailable': { retryable: true, countsAs: 'infra' },
  'Sandbox.ImageMissing': { retryable: false, countsAs: 'infra' },
  'Sandbox.ImageMismatch': { retryable: false, countsAs: 'infra' },
  'Sandbox.ImageUnsuitable': { retryable: false, countsAs: 'user' },
  // An image that was to be built here was not; the message names the stage and what to do.
  'Image.BuildFailed': { retryable: false, countsAs: 'infra' },
  'Sandbox.RuntimeMissing': { retryable: false, countsAs: 'user' },
  'Sandbox.Unsafe': { retryable: false, countsAs: 'user' },
  'Sandbox.PullFailed': { retryable: true, countsAs: 'infra' },
  'Sandbox.Lost': { retryable: false, countsAs: 'infra' },
  // It ended, or fell silent, and the host saw nothing from outside at work.
  'Sandbox.Ended': { retryable: false, countsAs: 'policy' },
  // It wrote more than it may, as the host counted.
  'Sandbox.DiskLimit': { retryable: false, countsAs: 'policy' },
  'Sandbox.Behind': { retryable: false, countsAs: 'infra' },
  'Sandbox.Foreign': { retryable: false, countsAs: 'infra' },
  'Sandbox.OutOfDisk': { retryable: true, countsAs: 'infra' },
  'Sandbox.Fenced': { retryable: false, countsAs: 'infra' },
  'Sandbox.JournalConflict': { retryable: false, countsAs: 'infra' },
  'Sandbox.Diverged': { retryable: false, countsAs: 'infra' },
  'Sandbox.Stalled': { retryable: true, countsAs: 'infra' },
  // The host is drained, or its worker stops: any other host may take the work.
  'Host.Closed': { retryable: false, countsAs: 'infra' },
  'Grading.Failed': { retryable: true, countsAs: 'infra' },
  // What was graded ended its own grading.
  'Grading.Ended': { retryable: true, countsAs: 'policy' },
  'Group.TooSmall': { retryable: false, countsAs: 'infra' },
  'Batch.Empty': { retryable: false, countsAs: 'user' },
  // It does not want what it is sent, or answers with something else than a tracker does.
  'Tracker.Refused': { retryable: false, countsAs: 'infra' },
  'Tracker.Unavailable': { retryable: true, countsAs: 'infra' },
  'Trainer.BadSpec': { retryable: false, countsAs: 'user' },
  'Trainer.BatchRefused': { retryable: false, countsAs: 'infra' },
  'Trainer.InputMissing': { retryable: false, countsAs: 'infra' },
  'Trainer.Unavailable': { retryable: true, countsAs: 'infra' },
  'Trainer.OutputFailed': { retryable: true, countsAs: 'infra' },
  'Trainer.Stalled': { retryable: true, countsAs: 'infra' },
  'Trainer.Stopped': { retryable: true, countsAs: 'infra' },
  'Trainer.Diverged': { retryable: false, countsAs: 'user' },
  'Trainer.OutOfMemory': { retryable: false, countsAs: 'user' },
  'Trainer.Failed': { retryable: true, countsAs: 'infra' },
  'Trainer.NotStarted': { retryable: false, countsAs: 'user' },
  'Ledger.Mismatch': { retryable: false, countsAs: 'infra' },
  'Report.Incomplete': { retryable: false, countsAs: 'infra' },
  'Stack.SetupFailed': { retryable: false, countsAs: 'infra' },
  'Temporal.Refused': { retryable: false, countsAs: 'user' },
  'Temporal.Unreachable': { retryable: true, countsAs: 'infra' },
  'Worker.Missing': { retryable: false, countsAs: 'infra' },
  'Worker.Stalled': { retryable: true, countsAs: 'infra' },
  Unexpected: { retryable: true, countsAs: 'infra' },
} as const satisfies Record<string, { retryable: boolean; countsAs: 'policy' | 'infra' | 'user' }>

export type FailureCode = keyof typeof FAILURE_CODES

export function isFailureCode(value: unknown): value is FailureCode {
  return typeof value === 'string' && Object.hasOwn(FAILURE_CODES, value)
}

/**
 * What is wrong with what a run was given: its recipe, its name, its suites or a row of them. Found before its gates, it is the answer of
 * a usage error. The other codes of the user's (a server that does not answer, a trainer without memory) need a machine to be found.
 */
export function isRefusalOfInput(code: FailureCode): boolean {
  return (
    code.startsWith('Config.') || code === 'Run.RecipeConflict' || code === 'Suite.Overlap' || code === 'Task.Invalid'
  )
}
