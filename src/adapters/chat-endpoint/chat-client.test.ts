import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { type TestContext, test } from 'node:test'
import {
  type Answer,
  hang,
  json,
  says,
  startScriptedEndpoint,
  streams,
} from '../../../test/support/chat-endpoint/scripted-endpoint.ts'
import { listenOnLoopback } from '../../../test/support/loopback.ts'
import { isLonghaulError, type LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { ChatRequest } from '../../contracts/policy.types.ts'
import type { ChatRecipe } from '../../contracts/recipe.types.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import { runInSpan } from '../../platform/current-trace.ts'
import { createPolicyClient } from '../policy-server/client.ts'
import { createChatClient } from './chat-client.ts'

const KEY = 'sk-very-secret-123'
const never = new AbortController().signal
const request: ChatRequest = {
  messages: [
    { role: 'system', content: 'be good' },
    { role: 'user', content: 'repair it' },
    { role: 'assistant', content: '' },
    { role: 'user', content: 'nothing was run' },
  ],
  maxTokens: 40,
  seed: 2 ** 40 + 7,
  sampling: NEUTRAL_SAMPLING,
  session: 'run/eval-nightly/0000/task/00',
}
const settings: ChatRecipe = {
  apiKeyVariable: 'KEY',
  requestTimeoutS: 60,
  stream: false,
  seed: true,
  samplingFields: 'standard',
  maxTokensField: 'max_tokens',
}

/** For answers that never end. A busy machine takes as long for one that does. */
const IMPATIENT = { requestTimeoutS: 0.4 }

/** The n-th request gets the n-th answer, the last one stays. */
async function serve(t: TestContext, answers: Answer[], changes: Partial<ChatRecipe> = {}, models: object[] = []) {
  const endpoint = await startScriptedEndpoint((_request, number) => {
    const answer = answers[Math.min(number, answers.length) - 1]
    assert.ok(answer !== undefined)
    return answer
  }, models)
  t.after(() => endpoint.close())
  const trouble: LonghaulError[] = []
  const client = createChatClient({
    url: endpoint.url,
    model: 'big-model',
    settings: { ...settings, ...changes },
    apiKey: KEY,
    giveUpAfterMs: 4_000,
    onTransientError: (error) => trouble.push(error),
  })
  return { ...endpoint, client, trouble }
}

async function refusal(promise: Promise<unknown>): Promise<LonghaulError> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  )
  assert.ok(isLonghaulError(error), String(error))
  return error
}

test('a reply has the endpoint’s counts, and the request has key, fields, seed and no empty message', async (t) => {
  const { client, seen } = await serve(t, [says('done')])
  const { tookMs, ...reply } = await client.reply(request, never)
  assert.equal(typeof tookMs, 'number')
  assert.deepEqual(reply, {
    text: 'done',
    answer: {
      model: 'big-model',
      ending: 'stop',
      usage: { promptTokens: 100, cachedTokens: 60, completionTokens: 10 },
    },
  })
  assert.equal(seen[0]?.headers.authorization, `Bearer ${KEY}`)
  assert.deepEqual(seen[0]?.body, {
    model: 'big-model',
    messages: [
      ...request.messages.slice(0, 2),
      { role: 'assistant', content: '(no text)' },
      ...request.messages.slice(3),
    ],
    max_tokens: 40,
    n: 1,
    stream: false,
    temperature: 1,
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    seed: (2 ** 40 + 7) % 2 ** 31,
  })
})

test('sends all fields to an endpoint that takes them and no seed to one that refuses seeds', async (t) => {
  const { client, seen } = await serve(t, [says('done')], {
    samplingFields: 'all',
    seed: false,
    maxTokensField: 'max_completion_tokens',
  })
  await client.reply(request, never)
  const body = seen[0]?.body ?? {}
  assert.deepEqual([body['top_k'], body['min_p'], body['repetition_penalty']], [-1, 0, 1])
  // llama.cpp knows the repetition penalty by another name and ignores the first in silence.
  assert.equal(body['repeat_penalty'], 1)
  assert.deepEqual(['seed' in body, 'max_tokens' in body, body['max_completion_tokens']], [false, false, 40])
})

test('adds /v1 to a base address without a path', async (t) => {
  const { url, seen } = await serve(t, [says('done')])
  const client = createChatClient({ url: new URL(url).origin, model: 'm', settings })
  await client.reply(request, never)
  assert.equal(seen[0]?.path, '/v1/chat/completions')
  assert.equal(seen[0]?.headers.authorization, undefined)
})

for (const { title, answer, code } of [
  {
    title: '429 with Retry-After',
    answer: json(429, { error: { message: 'slow' } }, { 'retry-after': '1' }),
    code: 'Model.RateLimited',
  },
  { title: '500', answer: json(500, 'oops'), code: 'Model.Unavailable' },
  { title: '503 without a body', answer: json(503, ''), code: 'Model.Unavailable' },
  { title: 'a hang', answer: hang, code: 'Model.Unavailable' },
  { title: 'a body that is no JSON', answer: json(200, '<html>'), code: 'Model.BadResponse' },
  { title: 'a reply without choices', answer: json(200, { choices: [] }), code: 'Model.BadResponse' },
  {
    title: 'a reply that was given up',
    answer: says('x', { choices: [{ message: { content: 'x' }, finish_reason: 'error' }] }),
    code: 'Model.BadResponse',
  },
] satisfies { title: string; answer: Answer; code: FailureCode }[]) {
  test(`retries after ${title} and reports the failure`, async (t) => {
    const { client, seen, trouble } = await serve(t, [answer, says('done')], answer === hang ? IMPATIENT : {})
    assert.equal((await client.reply(request, never)).text, 'done')
    assert.equal(seen.length, 2)
    assert.deepEqual(
      trouble.map((error) => error.code),
      [code],
    )
  })
}

/** One event of a stream: a part of the text, and at last why it ended. */
function part(content: string | null, finish: string | null = null) {
  return { model: 'big-model', choices: [{ index: 0, delta: { content }, finish_reason: finish }] }
}

const COUNTED = { choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } }
const WHOLE = [part(''), part('do'), part('ne'), part(null, 'stop'), COUNTED, '[DONE]']

test('a streamed reply is the concatenation of its parts', async (t) => {
  const { client, seen, trouble } = await serve(
    t,
    [
      streams(WHOLE),
      streams([{ ...part('left'), usage: { prompt_tokens: 7, completion_tokens: 1 } }, part('', 'length')]),
      streams([{ choices: [{ index: 1, delta: { content: 'another' } }] }, part('one', 'stop'), '[DONE]', 'no event']),
      says('whole all the same'),
    ],
    { stream: true },
  )
  const replies = []
  for (let count = 0; count < 4; count += 1) replies.push(await client.reply(request, never))
  assert.deepEqual(
    replies.map(({ text, answer }) => [text, answer.model, answer.ending, answer.usage?.completionTokens]),
    [
      ['done', 'big-model', 'stop', 3],
      ['left', 'big-model', 'length', 1],
      ['one', 'big-model', 'stop', undefined],
      ['whole all the same', 'big-model', 'stop', 10],
    ],
  )
  assert.deepEqual(trouble, [])
  assert.deepEqual([seen[0]?.body['stream'], seen[0]?.body['stream_options']], [true, { include_usage: true }])
})

const STOPPED = streams(WHOLE.slice(0, 4), 'hang')

for (const { title, answer, code } of [
  { title: 'ends before its reply does', answer: streams(WHOLE.slice(0, 3)), code: 'Model.BadResponse' },
  { title: 'says nothing', answer: streams([]), code: 'Model.BadResponse' },
  { title: 'has an event that is no JSON', answer: streams([part('do'), '{"choices']), code: 'Model.BadResponse' },
  { title: 'has an event that is a number', answer: streams(['7']), code: 'Model.BadResponse' },
  {
    title: 'has an error that is nested deeply',
    answer: streams([`{"error": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`]),
    code: 'Model.Unavailable',
  },
  {
    title: 'has an event of more than a mebibyte',
    answer: streams([`[${'[],'.repeat(400_000)}0]`, ...WHOLE]),
    code: 'Model.Unavailable',
  },
  {
    title: 'has a text of more than two mebibytes',
    answer: streams([...Array<object>(5).fill(part('x'.repeat(500_000))), ...WHOLE]),
    code: 'Model.BadResponse',
  },
  {
    title: 'has a text that is none',
    answer: streams([{ choices: [{ delta: { content: { a: 1 } } }] }, ...WHOLE]),
    code: 'Model.BadResponse',
  },
  { title: 'is cut', answer: streams(WHOLE.slice(0, 4), 'cut'), code: 'Model.Unavailable' },
  { title: 'stops amid the reply', answer: STOPPED, code: 'Model.Unavailable' },
  {
    title: 'tells an error of the engine',
    answer: streams([part('do'), { error: { message: 'out of memory', code: 503 } }]),
    code: 'Model.Unavailable',
  },
  {
    title: 'tells an error without a status',
    answer: streams([{ error: { message: 'the worker died', type: 'server_error' } }]),
    code: 'Model.Unavailable',
  },
] satisfies { title: string; answer: Answer; code: FailureCode }[]) {
  test(`retries a stream that ${title}`, async (t) => {
    const { client, seen, trouble } = await serve(t, [answer, streams(WHOLE)], {
      stream: true,
      ...(answer === STOPPED ? IMPATIENT : {}),
    })
    assert.equal((await client.reply(request, never)).text, 'done')
    assert.equal(seen.length, 2)
    assert.deepEqual(
      trouble.map((error) => error.code),
      [code],
    )
  })
}

test('reports an overflow inside a stream, and a cancelled stream throws its reason', async (t) => {
  const overflow = { error: { message: 'the prompt exceeds the available context size', code: 400 } }
  const { client } = await serve(t, [streams([overflow]), STOPPED], { stream: true })
  assert.equal((await refusal(client.reply(request, never))).code, 'Model.ContextOverflow')
  const given = new AbortController()
  const reason = new Error('the episode was cancelled')
  setTimeout(() => given.abort(reason), 200)
  await assert.rejects(client.reply(request, given.signal), (error) => error === reason)
})

test('waits for Retry-After within its timeout, and does not retry when it names a later time', async (t) => {
  const late = await serve(t, [json(429, {}, { 'retry-after': '30' }), says('done')])
  await refusal(late.client.reply(request, never))
  assert.equal(late.seen.length, 1)
  const soon = await serve(t, [json(429, {}, { 'retry-after': '0.1' }), says('done')])
  assert.equal((await soon.client.reply(request, never)).text, 'done')
})

test('accepts a reply without usage, or with counts that are none, and estimates nothing', async (t) => {
  const usages = [
    undefined,
    { prompt_tokens: 3 },
    { prompt_tokens: -1, completion_tokens: 3 },
    { prompt_tokens: '3', completion_tokens: 3 },
    // A sum of these is infinite, which no report can hold.
    { prompt_tokens: 1e308, completion_tokens: 3 },
    { prompt_tokens: 3, completion_tokens: 2 ** 53 },
  ]
  const { client } = await serve(
    t,
    usages.map((usage) => says('a', { usage })),
  )
  for (const usage of usages)
    assert.equal((await client.reply(request, never)).answer.usage, null, JSON.stringify(usage))
})

test('an error that is nested deeply, or quotes half of a character, becomes a failure with a text', async (t) => {
  const { client } = await serve(t, [
    json(400, `{"error": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`),
    json(400, '{"error": {"message": "half \\ud800"}}'),
    json(200, `{"choices": [{"message": {}, "finish_reason": {"toString": 1}}], "model": "${'m'.repeat(1_000_000)}"}`),
    says('done'),
  ])
  const split = await serve(t, [says('half \ud800 of a character')])
  assert.equal((await split.client.reply(request, never)).text, 'half \ufffd of a character')
  const half = await refusal(client.reply(request, never))
  assert.deepEqual([half.code, /half \ufffd/.test(half.message)], ['Config.Invalid', true])
  assert.equal((await client.reply(request, never)).text, 'done')
})

test('takes the text of a reply in parts, with a filter or with a tool call', async (t) => {
  const choice = (message: object, finish_reason: string) => says('', { choices: [{ message, finish_reason }] })
  const parts = [{ type: 'text', text: 'a' }, { type: 'image' }, { type: 'text', text: 'b' }]
  const { client } = await serve(t, [
    choice({ content: parts }, 'stop'),
    choice({ content: null }, 'tool_calls'),
    choice({ content: 'cut' }, 'content_filter'),
    choice({ content: 'long' }, 'length'),
  ])
  const replies = []
  for (let count = 0; count < 4; count += 1) replies.push(await client.reply(request, never))
  assert.deepEqual(
    replies.map(({ text, answer }) => [text, answer.ending]),
    [
      ['ab', 'stop'],
      ['', 'tool_calls'],
      ['cut', 'content_filter'],
      ['long', 'length'],
    ],
  )
})

for (const message of [
  "This model's maximum context length is 8192 tokens",
  'prompt is too long: 210000 tokens > 200000 maximum',
  "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
  'the request exceeds the available context size. try increasing the context size',
]) {
  test(`distinguishes an overflow from other refusals: ${message.slice(0, 40)}`, async (t) => {
    const { client } = await serve(t, [json(400, { error: { message } })])
    assert.equal((await refusal(client.reply(request, never))).code, 'Model.ContextOverflow')
  })
}

test('does not retry a wrong key, missing credit or an unknown field', async (t) => {
  for (const answer of [
    json(401, { error: { message: `Incorrect API key provided: ${KEY}` } }),
    json(429, { error: { message: 'no credit', code: 'insufficient_quota' } }),
    json(400, { error: { message: 'Unsupported parameter: seed' } }),
  ]) {
    const { client, seen } = await serve(t, [answer])
    const error = await refusal(client.reply(request, never))
    assert.equal(error.code, 'Config.Invalid')
    assert.equal(seen.length, 1)
    assert.doesNotMatch(`${error.message} ${JSON.stringify(error.details)}`, new RegExp(KEY))
  }
})

test('the check accepts an endpoint without a list of models and refuses a closed port', async (t) => {
  const { client, url } = await serve(t, [says('x')])
  await client.check(never)
  const unlisted = createChatClient({ url: `${url}/elsewhere`, model: 'm', settings })
  await unlisted.check(never)
  const refusing = createChatClient({ url: 'http://127.0.0.1:9/v1', model: 'm', settings, giveUpAfterMs: 300 })
  assert.equal((await refusal(refusing.check(never))).code, 'Model.Unavailable')
})

for (const [server, body] of [
  ['llama.cpp', { error: { message: 'File Not Found', type: 'not_found_error', code: 404 } }],
  ['FastAPI', { detail: 'Not Found' }],
  ['Go', '404 page not found\n'],
] as const) {
  test(`a path that ${server} does not have is a wrong address`, async (t) => {
    const { client } = await serve(t, [json(404, body)])
    assert.equal((await refusal(client.reply(request, never))).code, 'Config.Invalid')
  })
}

test('a model that the server does not have is retryable', async (t) => {
  const { client } = await serve(t, [json(404, { error: { message: 'The model `m` does not exist.', code: 404 } })])
  assert.equal((await refusal(client.reply(request, never))).code, 'Model.NotServed')
})

test('llama.cpp accepts any name, so the check refuses one that is not among its names and aliases', async (t) => {
  const llama = [{ id: 'tiny.gguf', aliases: ['tiny', 'small'], owned_by: 'llamacpp' }]
  await check(t, llama, 'small', 'all')
  await check(t, llama, 'tiny.gguf', 'all')
  const named = await refusal(check(t, llama, 'big', 'all'))
  assert.deepEqual([named.code, /tiny\.gguf, tiny, small/.test(named.message)], ['Config.Invalid', true])
  // Lists of others need not hold every name that they take.
  await check(t, [{ id: 'dated-2026-01-01', owned_by: 'system' }], 'dated', 'standard')
  await check(t, [], 'big', 'standard')
})

for (const owner of ['llamacpp', 'vllm']) {
  test(`a list of ${owner}: the check refuses a name that is not in it`, async (t) => {
    const refused = await refusal(check(t, [{ id: 'tiny', owned_by: owner }], 'tiney', 'all'))
    assert.deepEqual([refused.code, /\(tiny\), got tiney/.test(refused.message)], ['Config.Invalid', true])
  })

  test(`a list of ${owner}: the check refuses standard sampling fields, which leave the server’s filters active`, async (t) => {
    await check(t, [{ id: 'tiny', owned_by: owner }], 'tiny', 'all')
    const filtered = await refusal(check(t, [{ id: 'tiny', owned_by: owner }], 'tiny', 'standard'))
    assert.deepEqual([filtered.code, /samplingFields: all/.test(filtered.message)], ['Config.Invalid', true])
  })
}

test('a list of several owners belongs to a gateway, whose filters are unknown', async (t) => {
  const models = ['vllm', 'llamacpp'].map((owner) => ({ id: owner, owned_by: owner }))
  await check(t, models, 'dated', 'standard')
})

async function check(t: TestContext, models: object[], model: string, samplingFields: ChatRecipe['samplingFields']) {
  const { url } = await serve(t, [says('x')], {}, models)
  await createChatClient({ url, model, settings: { ...settings, samplingFields } }).check(never)
}

test('sends the trace to a policy server but not to a chat endpoint', async (t) => {
  const { client, seen } = await serve(t, [says('done')])
  const own: (string | string[] | undefined)[] = []
  const server = createServer((asked, answer) => {
    own.push(asked.headers['traceparent'])
    answer.end('{"ids":[1]}')
  })
  const url = `http://127.0.0.1:${await listenOnLoopback(server)}`
  t.after(() => server.close())
  const context = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), sampled: true }
  const policyServer = createPolicyClient({ kind: 'embedded', url, timeouts: { giveUpAfterMs: 1 } })
  await runInSpan({ context, note: () => undefined }, async () => {
    await client.reply(request, never)
    await policyServer.tokenize({ policy: 'v000000-00000000', text: 'x' }, never).catch(() => undefined)
  })
  assert.deepEqual(
    seen.map(({ headers }) => headers['traceparent']),
    [undefined],
  )
  assert.equal(own[0], `00-${context.traceId}-${context.spanId}-01`)
})
