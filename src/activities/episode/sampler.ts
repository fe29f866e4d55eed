import type { ActionRecord, EpisodeSpec, EpisodeStart } from '../../contracts/episodes.types.ts'
import type { ChatFormat } from '../../contracts/policy.types.ts'
import type { ScaffoldProfile } from '../../contracts/sandbox.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import type { Transcript } from './transcript.ts'

/** Everything that a spec names, looked up. */
export interface EpisodeSetting {
  task: Task
  profile: ScaffoldProfile
  format: ChatFormat
}

export interface FirstPromptInput {
  spec: EpisodeSpec
  setting: EpisodeSetting
  /** Statement and prompt line. */
  firstMessage: string
  signal: AbortSignal
}

export interface SampleInput {
  spec: EpisodeSpec
  setting: EpisodeSetting
  transcript: Transcript
  turn: number
  seed: number
  signal: AbortSignal
  /**
   * The turn as another worker has recorded it meanwhile, else null. Read right before the request to the policy server: a worker
   * that was suspended may have been replaced, and a second sample of a recorded turn is wasted.
   */
  recorded(): Promise<SampledTurn | null>
}

/** The part of an action record that the policy makes. */
export type SampledTurn = Pick<ActionRecord, 'promptDelta' | 'ids' | 'logprobs' | 'text' | 'finishReason' | 'policy'> &
  Pick<Partial<ActionRecord>, 'chat'>

/** How the replies of an episode come about: as token ids that may be trained on, or as text that may only be graded. */
export interface Sampler {
  /** The first prompt as this sampler needs it; made once and kept. */
  firstPrompt(input: FirstPromptInput): Promise<Pick<EpisodeStart, 'promptIds' | 'trainingPromptIds' | 'messages'>>
  /** Null where the turn does not fit into the context any more: the policy's own ending. */
  sample(input: SampleInput): Promise<SampledTurn | null>
}
