import { LonghaulError } from '../../contracts/errors.ts'
import type { ChatReply, ChatRequest, TokenUsage } from '../../contracts/policy.types.ts'
import type { ChatRecipe } from '../../contracts/recipe.types.ts'
import { isCount, isObject } from '../../domain/shapes.ts'
import type { EventFold } from '../policy-server/openai-transport.ts'
import { bad } from '../policy-server/dialect.ts'

/** Placeholder for an empty message. Some endpoints refuse a message without text, and an empty reply must not end a run. */
const NO_TEXT = '(no text)'

/** The smallest range of seeds that a known endpoint accepts: 31 bits. */
const SEEDS = 2 ** 31

/** The body of `/chat/completions`. It contains every decoding field that the endpoint accepts, so that no default applies. */
export function chatBody({
  model,
  request: { messages, maxTokens, seed, sampling },
  settings,
}: {
  model: string
  request: ChatRequest
  settings: Omit<ChatRecipe, 'apiKeyVariable' | 'requestTimeoutS'>
}): Record<string, unknown> {
  return {
    model,
    messages: messages.map(({ role, content }) => ({ role, content: content === '' ? NO_TEXT : content })),
    [settings.maxTokensField]: maxTokens,
    n: 1,
    ...(settings.stream ? { stream: true, stream_options: { include_usage: true } } : { stream: false }),
    temperature: sampling.temperature,
    top_p: sampling.topP,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    ...(settings.samplingFields === 'all'
      ? {
          top_k: sampling.topK,
          min_p: sampling.minP,
          repetition_penalty: sampling.repetitionPenalty,
          // llama.cpp's name of the field. Each server ignores the other's name.
          repeat_penalty: sampling.repetitionPenalty,
        }
      : {}),
    ...(settings.seed ? { seed: seed % SEEDS } : {}),
  }
}

/**
 * Finish reasons that count as the policy's own. A content filter or a native tool call may leave partial text, and without a command
 * in it the turn is a format error. Every other reason (`error`, `abort`) is a failure of the endpoint and is retried.
 */
const ENDINGS = ['stop', 'length', 'content_filter', 'tool_calls', 'function_call', 'end_turn', 'eos'] as const

/** Characters of a streamed reply, which the answer of a server that does not stream cannot exceed either. */
const MOST_TEXT = 2 * 1024 * 1024

/** @throws LonghaulError `Model.BadResponse` */
export function readChatReply(answer: unknown): ChatReply {
  const body = isObject(answer) ? answer : {}
  const choice: unknown = Array.isArray(body['choices']) ? body['choices'][0] : undefined
  if (!isObject(choice)) throw bad('choices[0]', { got: typeof choice })
  const message = choice['message']
  if (!isObject(message)) throw bad('the message of the reply', { got: typeof message })
  const ending = ENDINGS.find((word) => word === choice['finish_reason'])
  if (ending === undefined) throw bad('a finished reply', { finish: String(choice['finish_reason']).slice(0, 40) })
  return {
    // The next request repeats it, and servers in Python cannot encode half of a character.
    text: textOf(message['content']).toWellFormed(),
    answer: {
      model: typeof body['model'] === 'string' ? body['model'] : null,
      ending,
      usage: readUsage(body['usage']),
    },
  }
}

/**
 * Joins the chunks of a stream into one answer and keeps none of them. A truncated stream has no finish reason and therefore is no
 * finished reply.
 */
export function createChunkFold(): EventFold {
  let model: string | undefined
  let text = ''
  let finish: string | undefined
  let usage: unknown
  let fault: unknown = null

  function addChoice(choice: Record<string, unknown>): void {
    const { index, delta, finish_reason: reason } = choice
    if (index !== undefined && index !== 0) return
    if (isObject(delta)) text += textOf(delta['content'])
    if (text.length > MOST_TEXT) throw bad('a reply of at most 2 MiB', {})
    if (typeof reason === 'string') finish = reason
  }
  return {
    add(chunk) {
      if (!isObject(chunk) || fault !== null) return
      if (typeof chunk['model'] === 'string') model ??= chunk['model']
      // Some engines report running totals in every chunk, so the last one counts.
      if (isObject(chunk['usage'])) usage = chunk['usage']
      try {
        if (Array.isArray(chunk['choices'])) chunk['choices'].filter(isObject).forEach(addChoice)
      } catch (error) {
        fault = error
      }
    },
    end() {
      if (fault !== null) throw fault
      return { model, choices: [{ message: { content: text }, finish_reason: finish }], usage }
    },
  }
}

/** Returns the text of a string or of a list of parts; null content means a tool call. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (!Array.isArray(content)) throw bad('the text of the reply', { got: typeof content })
  return content
    .map((part: unknown) => (isObject(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('')
}

/** Returns null if the endpoint does not report usage. Nothing is estimated. */
function readUsage(usage: unknown): TokenUsage | null {
  if (!isObject(usage)) return null
  const [promptTokens, completionTokens] = [usage['prompt_tokens'], usage['completion_tokens']]
  if (!isCount(promptTokens) || !isCount(completionTokens)) return null
  const details = usage['prompt_tokens_details']
  const cached = isObject(details) ? details['cached_tokens'] : undefined
  return { promptTokens, cachedTokens: isCount(cached) ? Math.min(cached, promptTokens) : null, completionTokens }
}

/** Servers by the owner that their list of models names; that list has every model of theirs. */
const KNOWN_SERVERS: ReadonlyMap<unknown, { name: string; filters: string }> = new Map([
  ['llamacpp', { name: 'llama.cpp', filters: 'top-k and min-p' }],
  ['vllm', { name: 'vLLM', filters: 'top-k, min-p and repetition penalty of the model’s generation config' }],
])

/**
 * Refuses settings under which a known server would not answer as asked. llama.cpp accepts any name and answers with the model that it
 * was started on. It filters by top-k 40 and min-p 0.05 unless a request sets them, vLLM by what the model's directory says.
 * @throws LonghaulError `Config.Invalid`
 */
export function refuseWrongServer(
  answer: unknown,
  { model, samplingFields }: { model: string; samplingFields: ChatRecipe['samplingFields'] },
): void {
  const list = isObject(answer) && Array.isArray(answer['data']) ? answer['data'].filter(isObject) : []
  const owner = list[0]?.['owned_by']
  const server = KNOWN_SERVERS.get(owner)
  // A gateway lists models of several owners, and may set fields itself.
  if (server === undefined || list.some((entry) => entry['owned_by'] !== owner)) return
  const names = list.flatMap(({ id, aliases }) => [id, ...(Array.isArray(aliases) ? aliases : [])])
  if (!names.includes(model)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected model.base to be a model of this ${server.name} server (${names.join(', ')}), got ${model}`,
      details: { model },
    })
  }
  if (samplingFields !== 'all') {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected policyServer.chat.samplingFields: all, because ${server.name} filters by ${server.filters} without them`,
      details: { samplingFields },
    })
  }
}
