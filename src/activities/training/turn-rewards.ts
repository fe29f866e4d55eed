import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type {
  ActionRecord,
  EpisodeRecord,
  ExecutionSummary,
  ObservationRecord,
} from '../../contracts/episodes.types.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { ReinforceRecipe } from '../../contracts/recipe.types.ts'
import type { ScoredGroup } from '../../domain/ledger/episode-fates.ts'
import { stepAdvantages, stepRewards, type TurnFacts } from '../../domain/rewards/step-rewards.ts'
import { readOrThrow } from '../runtime/stored-records.ts'

export interface TurnRewards {
  /** The reward of each turn, for each valid sibling of the group. */
  rewardsOf(group: Pick<ScoredGroup, 'taskId'>): number[][]
  /** The advantage of each turn, which is added to the trajectory's. */
  advantagesOf(row: { group: string; member: number | null; advantage: number | null }): number[]
}

export interface RewardTurnsInput {
  reinforce: Pick<ReinforceRecipe, 'advantage'> & { stepRewards: NonNullable<ReinforceRecipe['stepRewards']> }
  records: readonly EpisodeRecord[]
  groups: readonly ScoredGroup[]
}

/** Computes the rewards of an iteration's turns, and each turn's advantage over its siblings, from their records. */
export async function rewardTurns(
  store: ArtifactStore,
  { reinforce, records, groups }: RewardTurnsInput,
): Promise<TurnRewards> {
  const { advantage, stepRewards: prices } = reinforce
  const byId = new Map(records.map((record) => [record.episode, record]))
  const rewards = new Map<string, number[][]>()
  for (const { taskId, members } of groups) {
    const ofGroup: number[][] = []
    for (const { episode } of members) {
      ofGroup.push(stepRewards(await readTurns(store, episode, byId.get(episode)?.turns ?? 0), prices))
    }
    rewards.set(taskId, ofGroup)
  }
  const advantages = new Map(
    [...rewards].map(([taskId, ofGroup]) => [taskId, stepAdvantages({ rewards: ofGroup, ...advantage })]),
  )
  return {
    rewardsOf: ({ taskId }) => rewards.get(taskId) ?? [],
    advantagesOf: ({ group, member, advantage: ofTrajectory }) =>
      (advantages.get(group)?.[member ?? -1] ?? []).map((ofTurn) => (ofTrajectory ?? 0) + prices.weight * ofTurn),
  }
}

async function readTurns(store: ArtifactStore, episode: string, turns: number): Promise<TurnFacts[]> {
  const facts: TurnFacts[] = []
  for (let turn = 0; turn < turns; turn++) {
    const { formatError } = await readOrThrow<ActionRecord>(store, episodeKeys.action(episode, turn))
    // An episode that ended by a limit may lack its last observation.
    const observation = await store.readRecord<ObservationRecord>(episodeKeys.observation(episode, turn))
    facts.push({ formatError: formatError !== null, stopped: wasStopped(observation?.execution ?? null) })
  }
  return facts
}

function wasStopped(execution: ExecutionSummary | null): boolean {
  switch (execution?.reason) {
    case 'timeout':
    case 'output-limit':
    case 'process-limit':
      return true
    default:
      return false
  }
}
