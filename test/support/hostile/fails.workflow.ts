import { ActivityFailure, ApplicationFailure, proxyActivities } from '@temporalio/workflow'

const { fail } = proxyActivities<{ fail(input: object): Promise<void> }>({
  startToCloseTimeout: '30 seconds',
  retry: { maximumAttempts: 1 },
})

/** @returns the code of the activity's failure */
export async function callFail(): Promise<string> {
  try {
    await fail({})
  } catch (error) {
    if (error instanceof ActivityFailure && error.cause instanceof ApplicationFailure) return error.cause.type ?? ''
    throw error
  }
  return 'no failure'
}
