import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { ChatClient } from '../../contracts/policy.types.ts'
import type { ChatRecipe } from '../../contracts/recipe.types.ts'
import { connectToServer } from '../policy-server/server-connection.ts'
import { chatBody, createChunkFold, readChatReply, refuseWrongServer } from './chat-exchange.ts'

export interface ChatClientOptions {
  /** Base address. One with a path is used unchanged (`https://host/v1`); otherwise `/v1` is added. */
  url: string
  /** The model's name at the endpoint. */
  model: string
  settings: Omit<ChatRecipe, 'apiKeyVariable'>
  /** Sent as a bearer token. The caller reads it from the environment, never from a recipe. */
  apiKey?: string
  /** No new try starts after this time; the caller's own retries take over. @default 300000 */
  giveUpAfterMs?: number
  /** Called after each failed attempt that will be retried. */
  onTransientError?: (error: LonghaulError) => void
}

const CHECK_MS = 60_000
/** Replies are texts of some thousand tokens. The endpoint is not trusted, many episodes query it at once, and hostile JSON of this size
 *  takes the main thread a fifth of a second. */
const MAX_ANSWER_BYTES = 2 * 1024 * 1024
/** Each token of a stream has its own event of some 250 bytes. */
const MAX_STREAM_BYTES = 32 * 1024 * 1024

/**
 * Client of any OpenAI-compatible `/chat/completions`. It retries with jittered back-off and `Retry-After`, and repeats a request after
 * its time-out. Errors never contain the key, which endpoints tend to quote.
 */
export function createChatClient({
  url,
  model,
  settings,
  apiKey,
  giveUpAfterMs,
  onTransientError,
}: ChatClientOptions): ChatClient {
  const ask = connectToServer({
    url: withVersion(url),
    apiKey,
    maxAnswerBytes: settings.stream ? MAX_STREAM_BYTES : MAX_ANSWER_BYTES,
    timeouts: {
      requestMs: settings.requestTimeoutS * 1000,
      ...(giveUpAfterMs === undefined ? {} : { giveUpAfterMs }),
    },
    onTransientError: (error) => onTransientError?.(withoutKey(error, apiKey)),
  })
  const hidden = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw isLonghaulError(error) ? withoutKey(error, apiKey) : error
    }
  }
  return {
    reply: (request, signal) =>
      hidden(() =>
        ask({
          path: '/chat/completions',
          body: chatBody({ model, request, settings }),
          policy: model,
          headers: { 'x-session-id': encodeURIComponent(request.session) },
          ...(settings.stream ? { fold: createChunkFold } : {}),
          signal,
          parse: (answer, tookMs) => ({ ...readChatReply(answer), tookMs }),
        }),
      ),
    check: (signal) =>
      hidden(async () => {
        try {
          await ask({
            path: '/models',
            policy: null,
            timeoutMs: CHECK_MS,
            signal,
            parse: (answer) => refuseWrongServer(answer, { model, samplingFields: settings.samplingFields }),
          })
        } catch (error) {
          if (!isUnlisted(error)) throw error
        }
      }),
  }
}

/** Only a few endpoints require the model list, but every endpoint reports a refused key. */
function isUnlisted(error: unknown): boolean {
  return isLonghaulError(error) && (error.details['status'] === 404 || error.details['status'] === 405)
}

function withVersion(url: string): string {
  return URL.canParse(url) && new URL(url).pathname === '/' ? new URL('/v1', url).href : url
}

function withoutKey(error: LonghaulError, apiKey: string | undefined): LonghaulError {
  if (apiKey === undefined || apiKey === '' || !error.message.includes(apiKey)) return error
  // Without the cause, which may quote the key too.
  return new LonghaulError({ code: error.code, message: error.message.replaceAll(apiKey, '(the key)') })
}
