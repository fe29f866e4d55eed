/** The least work for Temporal with as many activities as an episode has: the capacity of the server itself. */
import { proxyActivities } from '@temporalio/workflow'

export interface ProbeInput {
  activities: number
}

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '5m', taskQueue: 'probe' })

export async function probe({ activities }: ProbeInput): Promise<void> {
  for (let number = 0; number < activities; number++) await nothing()
}
