import type { EpisodeSpec, ActionRecord, EpisodeLimits, EpisodeStart } from '../../contracts/episodes.types.ts'
import {
  type Defuse,
  chatFormats,
  createDefuse,
  readAddedTokens,
  renderDelta,
  renderFirstPrompt,
} from '../../scaffold/render.ts'
import type { ChatClients, PolicyClients } from '../runtime/policy-clients.ts'
import type { RecipeReader } from '../runtime/stored-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { policyKeys } from '../../contracts/keys.ts'
import type {
  PolicyRef,
  PolicyClient,
  ChatClient,
  ChatMessage,
  ChatRequest,
  ChatFormat,
  SampleResult,
} from '../../contracts/policy.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { systemPrompt } from '../../scaffold/observation.ts'
import { contextIds, type Transcript } from './transcript.ts'
import type { ScaffoldProfile } from '../../contracts/sandbox.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'

/** The objects that a spec names. */
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
   * Returns the turn if another worker has recorded it meanwhile, otherwise null. Called directly before the request to the policy
   * server: a suspended worker may have been replaced, and a second sample of a recorded turn is wasted.
   */
  recorded(): Promise<SampledTurn | null>
}

/** The part of an action record that the policy produces. */
export type SampledTurn = Pick<ActionRecord, 'promptDelta' | 'ids' | 'logprobs' | 'text' | 'finishReason' | 'policy'> &
  Pick<Partial<ActionRecord>, 'chat'> &
  Pick<SampleResult, 'tookMs'>

/** Produces the replies of an episode: as token ids that may be trained on, or as text that may only be graded. */
export interface Sampler {
  /** The first prompt in the sampler's form, created once and stored. */
  firstPrompt(input: FirstPromptInput): Promise<Pick<EpisodeStart, 'promptIds' | 'trainingPromptIds' | 'messages'>>
  /** Returns null if the turn no longer fits into the context, which ends the episode and counts as the policy's own ending. */
  sample(input: SampleInput): Promise<SampledTurn | null>
}

/** Chooses a run's sampler by the kind of its policy server. */
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
    // Read from the policy's own tokenizer, once per policy.
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

/** Number of policies whose special tokens are cached. A run uses one or two at a time. */
const KEPT = 8

/** Breaks up the special tokens of an episode's policy in untrusted text. The tokens are read once per policy. */
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

/** Empty if the policy's directory is not on this machine. `createDefuse` breaks up the tokens of known formats anyway. */
async function readTokens(
  { readRecord, weights }: Pick<ArtifactStore, 'readRecord' | 'weights'>,
  version: string,
): Promise<string[]> {
  const policy = await readRecord<PolicyRef>(policyKeys.ref(version))
  if (policy === null) return []
  const tokenizer = await weights.readFile({ policy, part: 'policy', name: 'tokenizer.json' })
  return tokenizer === null ? [] : readAddedTokens(Buffer.from(tokenizer).toString('utf8'))
}

/** For policies whose special tokens are unknown, as behind a chat endpoint. */
const defuseKnown = createDefuse()

/** Ids are appended as received; only first prompts and deltas are ever tokenised. */
export function createTokenSampler({
  policy,
  stopTokenIds,
  defuseFor = async () => defuseKnown,
}: {
  policy: PolicyClient
  /** The end-of-turn ids of the policy's own tokenizer. */
  stopTokenIds: (spec: EpisodeSpec, signal: AbortSignal) => Promise<number[]>
  /** Breaks up text that the policy's tokenizer would parse as one of its special tokens. @default those of all known formats */
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
      const promptIds = contextIds(transcript, promptDelta)
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
      const sampled = await nullOnOverflow(() => policy.sample(request, signal))
      return sampled === null ? null : { promptDelta, ...sampled }
    },
  }
}

/** Converts text into ids. */
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

/** Sends the scaffold's prompts as messages and receives replies as text. The endpoint's token counts tell how full the context is. */
export function createChatSampler({ chat }: { chat: ChatClient }): Sampler {
  return {
    async firstPrompt(input) {
      return { promptIds: [], trainingPromptIds: null, messages: firstMessages(input) }
    },
    async sample({ spec, transcript, seed, signal, recorded }): Promise<SampledTurn | null> {
      const { limits, sampling, episode } = spec
      const room = limits.contextTokens - usedTokens(transcript)
      if (room <= 0) return null
      const request: ChatRequest = {
        messages: conversation(transcript),
        maxTokens: Math.min(limits.maxTokensPerTurn, room),
        seed,
        sampling,
        session: episode,
      }
      const already = await recorded()
      if (already !== null) return already
      const reply = await nullOnOverflow(() => chat.reply(request, signal))
      if (reply === null) return null
      const { answer, ...said } = reply
      const finishReason = answer.ending === 'length' ? 'length' : 'stop'
      return { promptDelta: [], ids: [], logprobs: [], ...said, finishReason, policy: spec.policy, chat: answer }
    },
  }
}

/**
 * Returns whether a reply exceeded the recipe's context, which only the endpoint's counts show afterwards. Such a reply is stored,
 * because it was paid for, but never run: with ids it would have been cut.
 */
export function isBeyondContext({ chat }: Pick<ActionRecord, 'chat'>, { contextTokens }: EpisodeLimits): boolean {
  const usage = chat?.usage ?? null
  return usage !== null && usage.promptTokens + usage.completionTokens > contextTokens
}

function firstMessages({ spec, setting, firstMessage }: FirstPromptInput): ChatMessage[] {
  const system = systemPrompt({ profile: setting.profile, withDemonstration: spec.demonstration })
  return [
    { role: 'system', content: system },
    { role: 'user', content: defuseKnown(firstMessage) },
  ]
}

/** The history is complete and in order, as with ids; nothing is dropped or summarised. */
function conversation({ start, turns }: Transcript): ChatMessage[] {
  if (start.messages === undefined) {
    throw new LonghaulError({
      code: 'Artifact.Corrupt',
      message: 'Expected an episode that began with messages, but this one began with token ids',
      details: { episode: start.episode },
    })
  }
  const replies = turns.flatMap(({ action, observation }): ChatMessage[] => [
    { role: 'assistant', content: action.text },
    { role: 'user', content: defuseKnown(observation?.text ?? '') },
  ])
  return [...start.messages, ...replies]
}

/** The endpoint's last count; 0 without counts. Later text is not estimated, because a full context shows in the next reply. */
function usedTokens({ turns }: Transcript): number {
  const usage = turns.at(-1)?.action.chat?.usage ?? null
  return usage === null ? 0 : usage.promptTokens + usage.completionTokens
}

/** Returns null if the server's context is smaller than the recipe's: the turn does not fit, which counts as the policy's own ending. */
async function nullOnOverflow<T>(sample: () => Promise<T>): Promise<T | null> {
  try {
    return await sample()
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Model.ContextOverflow') return null
    throw error
  }
}
