/**
 * The least work for Temporal with as many activities as an episode has: the capacity of the server itself. `probe` stands alone, and the
 * worker that plays it takes its activities along. `probeTree` has the shape of a rollout: groups with episodes below them, and activities
 * on the queue of another worker.
 */
import { executeChild, proxyActivities, workflowInfo } from '@temporalio/workflow'

export interface ProbeInput {
  activities: number
}

export interface ProbeTreeInput extends ProbeInput {
  groups: number
  groupSize: number
  /** Queue of the activities. */
  hostQueue: string
}

interface Nothing {
  nothing(): Promise<void>
}

const { nothing } = proxyActivities<Nothing>({ startToCloseTimeout: '5m', taskQueue: 'probe' })

export async function probe({ activities }: ProbeInput): Promise<void> {
  for (let number = 0; number < activities; number++) await nothing()
}

export async function probeTree(input: ProbeTreeInput): Promise<void> {
  await playChildren(probeGroup, input.groups, input)
}

export async function probeGroup(input: ProbeTreeInput): Promise<void> {
  await playChildren(probeEpisode, input.groupSize, input)
}

export async function probeEpisode({ activities, hostQueue }: ProbeTreeInput): Promise<void> {
  const host = proxyActivities<Nothing>({ startToCloseTimeout: '5m', taskQueue: hostQueue })
  for (let number = 0; number < activities; number++) await host.nothing()
}

async function playChildren(
  child: (input: ProbeTreeInput) => Promise<void>,
  count: number,
  input: ProbeTreeInput,
): Promise<void> {
  const { workflowId } = workflowInfo()
  const children = Array.from({ length: count }, (_, index) => `${workflowId}/${index}`)
  await Promise.all(children.map((id) => executeChild(child, { workflowId: id, args: [input] })))
}
