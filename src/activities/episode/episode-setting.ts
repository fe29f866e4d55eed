import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { seedFrom, turnMaterial } from '../../domain/seeds.ts'
import { chatml } from '../../scaffold/chat-formats.ts'
import { scaffoldProfile } from '../../scaffold/profiles.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { TaskReader } from '../runtime/stored-tasks.ts'
import type { EpisodeSetting } from './sampler.ts'

/** Looks up what a spec names. */
export function createSettingResolver(deps: { tasks: TaskReader }): (spec: EpisodeSpec) => Promise<EpisodeSetting> {
  return async (spec) => {
    const task = await deps.tasks({ suite: spec.suiteHash, taskId: spec.taskId })
    return { task, profile: scaffoldProfile(spec.scaffold), format: chatml }
  }
}

/** Derived from the recipe's seed and the episode's identity, never from the run's name: a run can be repeated. */
export function turnSeed(identity: EpisodeInput & { recipeSeed: number; turn: number }): number {
  return seedFrom(sha256Hex(turnMaterial(identity)))
}
