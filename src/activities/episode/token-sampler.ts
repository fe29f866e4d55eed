import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import { systemPrompt } from '../../scaffold/profiles.ts'
import { renderDelta, renderFirstPrompt } from '../../scaffold/render.ts'
import type { FirstPromptInput, SampledTurn, SampleInput, Sampler } from './sampler.ts'
import { createDefuse, type Defuse } from '../../scaffold/special-tokens.ts'
import { contextIds } from './transcript.ts'

const defuseKnown = createDefuse()

/** Ids are appended as they came: only first prompts and deltas are ever tokenised. */
export function createTokenSampler({
  policy,
  stopTokenIds,
  defuseFor = async () => defuseKnown,
}: {
  policy: PolicyClient
  /** The end of turn as the policy's own tokenizer has it. */
  stopTokenIds: (spec: EpisodeSpec, signal: AbortSignal) => Promise<number[]>
  /** Breaks what the policy's tokenizer would take for one of its marks. @default those that are known of any format */
  defuseFor?: (spec: EpisodeSpec) => Promise<Defuse>
}): Sampler {
  return {
    async firstPrompt(input) {
      const { spec } = input
      const defuse = await defuseFor(spec)
      return {
        promptIds: await tokenizePrompt({ policy, defuse }, input, spec.demonstration),
        trainingPromptIds: spec.demonstration ? await tokenizePrompt({ policy, defuse }, input, false) : null,
      }
    },
    async sample(input): Promise<SampledTurn | null> {
      const { spec, transcript, seed, signal, recorded } = input
      const { limits, sampling } = spec
      const promptDelta = await promptDeltaOf({ policy, defuse: await defuseFor(spec) }, input)
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

/** What turns text into ids. */
interface Reader {
  policy: PolicyClient
  defuse: Defuse
}

function tokenizePrompt(
  { policy, defuse }: Reader,
  { spec, setting, firstMessage, signal }: FirstPromptInput,
  withDemonstration: boolean,
): Promise<number[]> {
  const { profile, format } = setting
  const system = systemPrompt({ profile, withDemonstration })
  const text = renderFirstPrompt({ format, systemPrompt: system, firstMessage, defuse })
  return policy.tokenize({ policy: spec.policy, text }, signal)
}

async function promptDeltaOf(
  { policy, defuse }: Reader,
  { spec, setting, transcript, turn, signal }: SampleInput,
): Promise<number[]> {
  const previous = transcript.turns[turn - 1]
  if (previous === undefined) return transcript.start.promptIds
  const text = renderDelta({
    format: setting.format,
    endedTurn: previous.action.finishReason === 'stop',
    observation: previous.observation?.text ?? '',
    defuse,
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
