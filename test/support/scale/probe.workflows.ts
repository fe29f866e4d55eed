/** The least that Temporal can be asked for with as many activities as an episode has: what the server itself can do. */
import { proxyActivities } from '@temporalio/workflow'

export interface ProbeInput {
  activities: number
}

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({ startToCloseTimeout: '5m', taskQueue: 'probe' })

export async function probe({ activities }: ProbeInput): Promise<void> {
  for (let number = 0; number < activities; number++) await nothing()
}
