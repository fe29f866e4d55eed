import type { RunOutcome } from '../../client/index.ts'

export function describeFailure(outcome: Exclude<RunOutcome<unknown>, { status: 'completed' }>): string {
  switch (outcome.status) {
    case 'failed':
      return `error ${outcome.code}: ${outcome.message}`
    case 'cancelled':
      return 'the run was cancelled'
    case 'terminated':
      return `the run was terminated: ${outcome.message}`
    case 'timed-out':
      return `the run took longer than it may: ${outcome.message}`
  }
}
