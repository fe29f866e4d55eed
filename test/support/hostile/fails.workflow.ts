import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'

import type { FailInput } from './failing-worker.ts'

const { fail } = proxyActivities<{ fail(input: FailInput): Promise<void> }>({
  startToCloseTimeout: '30 seconds',
  retry: { maximumAttempts: 1 },
})

/** @returns the code of the activity's failure */
export async function callFail(input: FailInput): Promise<string> {
  try {
    await fail(input)
  } catch (error) {
    if (error instanceof ActivityFailure && error.cause instanceof ApplicationFailure) return error.cause.type ?? ''
    throw error
  }
  return 'no failure'
}
