import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import { chatFormats, renderDelta, renderFirstPrompt } from '../../scaffold/render.ts'
import { type Defuse, createDefuse, readAddedTokens } from '../../scaffold/special-tokens.ts'
import type { ChatClients, PolicyClients } from '../runtime/policy-clients.ts'
import type { RecipeReader } from '../runtime/stored-records.ts'
import { createChatSampler } from './chat-sampler.ts'
import type { Sampler, FirstPromptInput, SampledTurn, SampleInput } from './sampler.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { policyKeys } from '../../contracts/keys.ts'
import type { PolicyRef, PolicyClient, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { systemPrompt } from '../../scaffold/observation.ts'
import { contextIds } from './transcript.ts'

/** Chooses the sampler of a run by the kind of its policy server. */
export type Samplers = (run: string) => Promise<Sampler>

export function createSamplers(deps: {
  recipes: RecipeReader
  policies: PolicyClients
  chats: ChatClients
  defuseFor: (spec: EpisodeSpec) => Promise<Defuse>
}): Samplers {
  const stopTokens = new Map<string, number[]>()
  return async (run) => {
    const { kind } = (await deps.recipes(run)).policyServer
    if (kind === 'chat') return createChatSampler({ chat: await deps.chats(run) })
    const policy = await deps.policies(run)
    // Asked of the policy's own tokenizer, once per policy.
    const stopTokenIds = async (spec: EpisodeSpec, signal: AbortSignal): Promise<number[]> => {
      const known = stopTokens.get(spec.policy)
      if (known !== undefined) return known
      const { endOfTurn } = chatFormats[spec.chatFormat ?? 'chatml']
      const ids = await policy.tokenize({ policy: spec.policy, text: endOfTurn }, signal)
      stopTokens.set(spec.policy, ids)
      return ids
    }
    return createTokenSampler({ policy, stopTokenIds, defuseFor: deps.defuseFor })
  }
}

/** Policies whose tokens are kept: a run uses one or two at a time. */
const KEPT = 8

/** Breaks the special tokens of an episode's policy in foreign text. They are read once for each policy. */
export function createDefuseFor({
  store,
}: {
  store: Pick<ArtifactStore, 'readRecord' | 'weights'>
}): (spec: Pick<EpisodeSpec, 'policy'>) => Promise<Defuse> {
  const known = new Map<string, Promise<Defuse>>()
  return ({ policy }) => {
    const found = known.get(policy)
    if (found !== undefined) return found
    const made = readTokens(store, policy).then((tokens) => createDefuse({ tokens }))
    known.set(policy, made)
    made.catch(() => known.delete(policy))
    const [oldest] = known.keys()
    if (known.size > KEPT && oldest !== undefined) known.delete(oldest)
    return made
  }
}

/** Empty where the policy's directory is not on this machine; `createDefuse` breaks the tokens of known formats anyway. */
async function readTokens(
  { readRecord, weights }: Pick<ArtifactStore, 'readRecord' | 'weights'>,
  version: string,
): Promise<string[]> {
  const policy = await readRecord<PolicyRef>(policyKeys.ref(version))
  if (policy === null) return []
  const tokenizer = await weights.readFile({ policy, part: 'policy', name: 'tokenizer.json' })
  return tokenizer === null ? [] : readAddedTokens(Buffer.from(tokenizer).toString('utf8'))
}

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
