import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { seedFrom, turnMaterial } from '../../domain/seeds.ts'
import { chatml } from '../../scaffold/chat-formats.ts'
import { scaffoldProfile } from '../../scaffold/profiles.ts'
import { sha256Hex } from '../hash.ts'
import type { PolicyClients } from '../policy-clients.ts'
import type { TaskReader } from '../stored-tasks.ts'
import type { EpisodeSetting } from './advance-episode.ts'

/** Looks up what a spec names. The end-of-turn id is asked of the policy's own tokenizer, once per policy. */
export function createSettingResolver(deps: {
  tasks: TaskReader
  policies: PolicyClients
}): (spec: EpisodeSpec) => Promise<EpisodeSetting> {
  const stopTokens = new Map<string, number[]>()
  return async (spec) => {
    const task = await deps.tasks({ suite: spec.suiteHash, taskId: spec.taskId })
    let stopTokenIds = stopTokens.get(spec.policy)
    if (stopTokenIds === undefined) {
      const text = chatml.endOfTurn
      const policy = await deps.policies(spec.run)
      stopTokenIds = await policy.tokenize({ policy: spec.policy, text }, AbortSignal.timeout(60_000))
      stopTokens.set(spec.policy, stopTokenIds)
    }
    return { task, profile: scaffoldProfile(spec.scaffold), format: chatml, stopTokenIds }
  }
}

/** Derived from the recipe's seed and the episode's identity, never from the run's name: a run can be repeated. */
export function turnSeed(identity: EpisodeInput & { recipeSeed: number; turn: number }): number {
  return seedFrom(sha256Hex(turnMaterial(identity)))
}
