import type { ActionRecord, EpisodeLimits } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { ChatClient, ChatMessage, ChatReply, ChatRequest } from '../../contracts/policy.types.ts'
import { systemPrompt } from '../../scaffold/observation.ts'
import { createDefuse } from '../../scaffold/special-tokens.ts'
import type { FirstPromptInput, SampledTurn, Sampler } from './sampler.ts'
import type { Transcript } from './transcript.ts'

// The endpoint's tokenizer is not known.
const defuse = createDefuse()

/** The scaffold's prompts as messages, the replies as text; the endpoint's own counts say how full the context is. */
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
      const reply = await replyOrOverflow(chat, request, signal)
      if (reply === null) return null
      const { text, answer } = reply
      const finishReason = answer.ending === 'length' ? 'length' : 'stop'
      return { promptDelta: [], ids: [], logprobs: [], text, finishReason, policy: spec.policy, chat: answer }
    },
  }
}

/**
 * Whether a reply went beyond the context that the recipe allows, which only the endpoint's counts tell, afterwards. Such a reply is
 * kept, because it was paid for, and never run: with ids it would have been cut.
 */
export function isBeyondContext({ chat }: Pick<ActionRecord, 'chat'>, { contextTokens }: EpisodeLimits): boolean {
  const usage = chat?.usage ?? null
  return usage !== null && usage.promptTokens + usage.completionTokens > contextTokens
}

function firstMessages({ spec, setting, firstMessage }: FirstPromptInput): ChatMessage[] {
  const system = systemPrompt({ profile: setting.profile, withDemonstration: spec.demonstration })
  return [
    { role: 'system', content: system },
    { role: 'user', content: defuse(firstMessage) },
  ]
}

/** Whole and in order, as with ids: nothing is dropped or summarised. */
function conversation({ start, turns }: Transcript): ChatMessage[] {
  if (start.messages === undefined) {
    throw new LonghaulError({
      code: 'Artifact.Corrupt',
      message: 'Expected an episode that began with messages, this one began with token ids',
      details: { episode: start.episode },
    })
  }
  const replies = turns.flatMap(({ action, observation }): ChatMessage[] => [
    { role: 'assistant', content: action.text },
    { role: 'user', content: defuse(observation?.text ?? '') },
  ])
  return [...start.messages, ...replies]
}

/** The last count of the endpoint. Later text is not estimated: a full context shows in the next reply. 0 without counts. */
function usedTokens({ turns }: Transcript): number {
  const usage = turns.at(-1)?.action.chat?.usage ?? null
  return usage === null ? 0 : usage.promptTokens + usage.completionTokens
}

/** Null where the endpoint's window is smaller than the recipe's. */
async function replyOrOverflow(chat: ChatClient, request: ChatRequest, signal: AbortSignal): Promise<ChatReply | null> {
  try {
    return await chat.reply(request, signal)
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Model.ContextOverflow') return null
    throw error
  }
}
