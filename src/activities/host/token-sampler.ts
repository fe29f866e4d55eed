import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import { systemPrompt } from '../../scaffold/profiles.ts'
import { renderDelta, renderFirstPrompt } from '../../scaffold/render.ts'
import type { FirstPromptInput, SampledTurn, SampleInput, Sampler } from './sampler.ts'
import { contextIds } from './transcript.ts'

/** Ids are appended as they came: only first prompts and deltas are ever tokenised. */
export function createTokenSampler({
  policy,
  stopTokenIds,
}: {
  policy: PolicyClient
  /** The end of turn as the policy's own tokenizer has it. */
  stopTokenIds: (spec: EpisodeSpec, signal: AbortSignal) => Promise<number[]>
}): Sampler {
  return {
    async firstPrompt(input) {
      const { spec } = input
      return {
        promptIds: await tokenizePrompt(policy, input, spec.demonstration),
        trainingPromptIds: spec.demonstration ? await tokenizePrompt(policy, input, false) : null,
      }
    },
    async sample(input): Promise<SampledTurn | null> {
      const { spec, transcript, seed, signal, recorded } = input
      const { limits, sampling } = spec
      const promptDelta = await promptDeltaOf(policy, input)
      const promptIds = [...contextIds(transcript), ...promptDelta]
      const room = limits.contextTokens - promptIds.length
      if (room <= 0) return null
      const request = {
        policy: spec.policy,
        promptIds,
        maxTokens: Math.min(limits.maxTokensPerTurn, room),
        seed,
        sampling,
        stopTokenIds: await stopTokenIds(spec, signal),
        session: spec.episode,
      }
      const already = await recorded()
      if (already !== null) return already
      const sampled = await sampleOrOverflow(policy, request, signal)
      return sampled === null ? null : { promptDelta, ...sampled }
    },
  }
}

function tokenizePrompt(
  policy: PolicyClient,
  { spec, setting, firstMessage, signal }: FirstPromptInput,
  withDemonstration: boolean,
): Promise<number[]> {
  const { profile, format } = setting
  const text = renderFirstPrompt({ format, systemPrompt: systemPrompt({ profile, withDemonstration }), firstMessage })
  return policy.tokenize({ policy: spec.policy, text }, signal)
}

async function promptDeltaOf(
  policy: PolicyClient,
  { spec, setting, transcript, turn, signal }: SampleInput,
): Promise<number[]> {
  const previous = transcript.turns[turn - 1]
  if (previous === undefined) return transcript.start.promptIds
  const text = renderDelta({
    format: setting.format,
    endedTurn: previous.action.finishReason === 'stop',
    observation: previous.observation?.text ?? '',
  })
  return policy.tokenize({ policy: spec.policy, text }, signal)
}

/** Null where the server's window is smaller than the recipe's: the turn does not fit, which is the policy's own ending. */
async function sampleOrOverflow(
  policy: PolicyClient,
  request: SampleRequest,
  signal: AbortSignal,
): Promise<SampleResult | null> {
  try {
    return await policy.sample(request, signal)
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Model.ContextOverflow') return null
    throw error
  }
}
