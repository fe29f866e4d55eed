/** The guarantees of the chat adapter with any running server; each server's tests play them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatClientOptions, createChatClient } from '../../../src/adapters/chat-endpoint/chat-client.ts'
import { NEUTRAL_SAMPLING } from '../../../src/contracts/neutral-sampling.ts'
import type { ChatClient, ChatReply, ChatRequest } from '../../../src/contracts/policy.types.ts'
import type { ChatRecipe } from '../../../src/contracts/recipe.types.ts'
import { eventually } from '../hang.ts'
import { askUntilAtWork, assertGivenUp } from './engine-process.ts'

export const CHAT_SETTINGS: Omit<ChatRecipe, 'apiKeyVariable'> = {
  requestTimeoutS: 120,
  stream: false,
  seed: true,
  samplingFields: 'all',
  maxTokensField: 'max_tokens',
}

export interface ChatServer {
  /** The current address: a restarted server may have another. */
  url: () => string
  model: string
  apiKey: string
  /** Positions of a request. */
  context: number
  /** Sampling defaults of the server for a request without these fields. */
  ownFilters: Partial<ChatRequest['sampling']>
  /** Number of requests in progress, as the server reports it. */
  running: () => Promise<number>
  /** Kills the server and starts another in its place. */
  restart: () => Promise<void>
  signal: AbortSignal
}

export function chatClientOf(
  { url, model, apiKey }: Pick<ChatServer, 'url' | 'model' | 'apiKey'>,
  changes: Partial<ChatClientOptions> = {},
): ChatClient {
  return createChatClient({ url: url(), model, settings: CHAT_SETTINGS, apiKey, ...changes })
}

export function chatRequest(changes: Partial<ChatRequest> = {}): ChatRequest {
  return {
    messages: [
      { role: 'system', content: 'be good' },
      { role: 'user', content: 'repair it' },
    ],
    maxTokens: 40,
    seed: 7,
    sampling: NEUTRAL_SAMPLING,
    session: 'run/eval-nightly/0000/task/00',
    ...changes,
  }
}

export function describeChat(server: ChatServer): void {
  const { model, context, ownFilters, running, signal } = server
  const client = (changes: Partial<ChatClientOptions> = {}): ChatClient => chatClientOf(server, changes)
  const streaming = (): ChatClient => client({ settings: { ...CHAT_SETTINGS, stream: true } })
  /** Work for some seconds: a single request may end with its first token. */
  const manyLong = (until: AbortSignal, by = client()): Promise<ChatReply>[] =>
    Array.from({ length: 64 }, (_, at) => {
      const asked = by.reply(chatRequest({ seed: at, maxTokens: context / 2 }), until)
      asked.catch(() => undefined)
      return asked
    })
  /** With one seed: any filter shows within forty tokens. */
  const sampledText = async (sampling: Partial<ChatRequest['sampling']>, by = client()): Promise<string> => {
    const { text } = await by.reply(chatRequest({ sampling: { ...NEUTRAL_SAMPLING, ...sampling } }), signal)
    return text
  }
  const tooLong = (): ChatRequest =>
    chatRequest({ messages: [{ role: 'user', content: 'repair '.repeat(2 * context) }] })

  test('the check passes, and refuses an unlisted name and a wrong key', async () => {
    await client().check(signal)
    for (const change of [{ model: 'another' }, { apiKey: 'wrong' }]) {
      await assert.rejects(client(change).check(signal), { code: 'Config.Invalid' })
    }
  })

  test('a wrong key or address does not count as a model that may be served later', async () => {
    await assert.rejects(client({ apiKey: 'wrong' }).reply(chatRequest(), signal), { code: 'Config.Invalid' })
    await assert.rejects(client({ url: `${server.url()}/v2` }).reply(chatRequest(), signal), { code: 'Config.Invalid' })
  })

  test('a reply depends on its seed, ends at its limit and is counted', async () => {
    const first = await client().reply(chatRequest({ maxTokens: 5 }), signal)
    const again = await client().reply(chatRequest({ maxTokens: 5 }), signal)
    const other = await client().reply(chatRequest({ maxTokens: 5, seed: 8 }), signal)
    assert.equal(again.text, first.text)
    assert.notEqual(other.text, first.text)
    assert.deepEqual([first.answer.model, first.answer.ending], [model, 'length'])
    assert.equal(first.answer.usage?.completionTokens, 5)
    const long = await client().reply(chatRequest({ maxTokens: context / 2 }), signal)
    assert.equal(long.answer.ending, 'stop')
  })

  test('a streamed reply equals the reply, and a cancelled one ends in the server', async () => {
    const [whole, inParts] = [
      await client().reply(chatRequest(), signal),
      await streaming().reply(chatRequest(), signal),
    ]
    assert.deepEqual([inParts.text, inParts.answer.model], [whole.text, model])
    assert.deepEqual(
      [inParts.answer.ending, inParts.answer.usage?.completionTokens, inParts.answer.usage?.promptTokens],
      [whole.answer.ending, whole.answer.usage?.completionTokens, whole.answer.usage?.promptTokens],
    )
    const given = new AbortController()
    const reason = new Error('the episode was cancelled')
    const asked = await askUntilAtWork({ ask: () => manyLong(given.signal, streaming()), running })
    given.abort(reason)
    for (const end of await Promise.allSettled(asked)) {
      assert.ok(end.status === 'fulfilled' || end.reason === reason, JSON.stringify(end))
    }
    await eventually(async () => assert.equal(await running(), 0))
  })

  test('a prompt beyond its context is an overflow, streamed or not', async () => {
    for (const by of [client(), streaming()]) {
      await assert.rejects(by.reply(tooLong(), signal), { code: 'Model.ContextOverflow' })
    }
  })

  test('every field of sampling arrives', async () => {
    const plain = await sampledText({})
    const greedy = await sampledText({ temperature: 0 })
    assert.notEqual(plain, greedy)
    for (const only of [{ topK: 1 }, { topP: 1e-6 }, { minP: 1 }]) assert.equal(await sampledText(only), greedy)
    for (const penalty of [{ repetitionPenalty: 3 }, { presencePenalty: 2 }, { frequencyPenalty: 2 }]) {
      assert.notEqual(await sampledText({ temperature: 0, ...penalty }), greedy, JSON.stringify(penalty))
    }
  })

  test('the check refuses standard sampling fields, which leave the server’s own filters active', async () => {
    const standard = client({ settings: { ...CHAT_SETTINGS, samplingFields: 'standard' } })
    const filtered = await sampledText({}, standard)
    assert.equal(filtered, await sampledText(ownFilters))
    assert.notEqual(filtered, await sampledText({}))
    await assert.rejects(standard.check(signal), { code: 'Config.Invalid' })
  })

  test('each of sixty-four concurrent requests gets the answer to its own prompt', async () => {
    const alone = await client().reply(chatRequest({ messages: [{ role: 'user', content: '' }] }), signal)
    assert.ok(alone.answer.usage !== null)
    const counts = await Promise.all(
      Array.from({ length: 64 }, async (_, at) => {
        // In no merge of the tokenizer, so one token each.
        const content = '\u0001'.repeat(at + 1)
        const asked = chatRequest({ seed: at, messages: [{ role: 'user', content }] })
        const { answer } = await client().reply(asked, signal)
        return answer.usage?.promptTokens ?? Number.NaN
      }),
    )
    const [shortest = Number.NaN] = counts
    assert.deepEqual(
      counts,
      counts.map((_, at) => shortest + at),
    )
  })

  test('a cancelled request ends in the server too, with the reason of its signal', async () => {
    await assertGivenUp({ ask: (until) => manyLong(until), running })
  })

  test('the restarted server finishes the work of a killed one', async () => {
    const asked = await askUntilAtWork({ ask: () => manyLong(signal), running })
    await server.restart()
    for (const { answer } of await Promise.all(asked)) assert.equal(answer.model, model)
  })
}
