/**
 * What our client sends, held against the request classes of the real serving engines, and their answers against our reader.
 * The packages are installed without their dependencies, so no model runs here: this says that every field is known, that none
 * is left to a server's defaults, and that an answer in their shape is understood. It says nothing about their numbers.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { SampleRequest } from '../../src/contracts/policy.types.ts'
import type { Dialect } from '../../src/adapters/policy-server/dialect.ts'
import { vllmDialect } from '../../src/adapters/policy-server/vllm-dialect.ts'
import { findPackages, type Judge, startJudge } from '../support/server-packages/judge.ts'

const VERSION = 'v000001-aaaaaaaa'
const request: SampleRequest = {
  policy: VERSION,
  promptIds: [5, 6, 7],
  maxTokens: 4,
  seed: 11,
  sampling: {
    temperature: 0.7,
    topP: 1,
    topK: -1,
    minP: 0,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
  },
  stopTokenIds: [2],
  session: 'run/rft/0001/task/00',
}
const packages = await findPackages()
const skip = 'skip' in packages ? packages.skip : false

describe('vLLM 0.33', { skip }, () => {
  let judge: Judge
  before(async () => {
    judge = startJudge({ python: 'python' in packages ? packages.python : '', of: 'vllm' })
    assert.equal(await judge.version(), '0.33.0')
  })
  after(() => judge.stop())

  test('every field of every request is known to it', () => assertKnown(judge, vllmDialect))

  test('a server whose defaults bias everything samples as it was told', async () => {
    const { read, left_to_server: left } = await judge.judge(vllmDialect.sample(request))
    assert.deepEqual(left, [])
    assert.ok(read)
    const { top_k: topK, ...others } = read
    assert.ok(topK === -1 || topK === 0, 'off, in either of its spellings')
    assert.deepEqual(others, {
      n: 1,
      temperature: 0.7,
      top_p: 1,
      min_p: 0,
      repetition_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      seed: 11,
      logprobs: 0,
      prompt_logprobs: null,
      max_tokens: 4,
      min_tokens: 0,
      ignore_eos: false,
      stop: [],
      stop_token_ids: [2],
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      watermarking: false,
      include_stop_str_in_output: false,
      logit_bias: null,
      allowed_token_ids: null,
      bad_words: [],
      thinking_token_budget: null,
    })
    const score = await judge.judge(vllmDialect.score({ policy: VERSION, ids: [5, 6, 7] }))
    assert.deepEqual(score.left_to_server, [])
    assert.equal(score.read?.['prompt_logprobs'], 0)
    assert.equal(score.read?.['temperature'], 1)
  })

  test('a field that it does not know, and a salt that it refuses, are found', async () => {
    const { body } = vllmDialect.sample(request)
    const misspelt = { ...vllmDialect.sample(request), body: { ...body, top_p_: 1 } }
    assert.deepEqual((await judge.judge(misspelt)).unknown, ['top_p_'])
    const salted = { ...vllmDialect.sample(request), body: { ...body, cache_salt: `${VERSION}/score` } }
    assert.match((await judge.judge(salted)).error ?? '', /cache_salt/)
    const { read } = await judge.judge({ ...misspelt, body: { model: VERSION, prompt: [5] } })
    assert.equal(read?.['top_k'], 20, 'what a request leaves out comes from the server')
    assert.equal(read?.['watermarking'], null)
  })

  test('answers of its own classes are read', () => assertRead(judge, vllmDialect))
})

async function assertKnown(judge: Judge, dialect: Dialect): Promise<void> {
  for (const exchange of [
    dialect.sample(request),
    dialect.tokenize({ policy: VERSION, text: 'a' }),
    dialect.score({ policy: VERSION, ids: [5, 6, 7] }),
    dialect.served(),
  ]) {
    const { unknown, error } = await judge.judge(exchange)
    assert.deepEqual({ path: exchange.path, unknown, error }, { path: exchange.path, unknown: [], error: undefined })
  }
}

async function assertRead(judge: Judge, dialect: Dialect): Promise<void> {
  assert.deepEqual(dialect.sample(request).parse(await judge.answer('sample', VERSION)), {
    ids: [8, 2],
    logprobs: [-0.5, -0.25],
    text: 'x',
    finishReason: 'stop',
    policy: VERSION,
  })
  const another = await judge.answer('sample', 'v000000-bbbbbbbb')
  assert.throws(() => dialect.sample(request).parse(another), { code: 'Model.NotServed' })
  const score = dialect.score({ policy: VERSION, ids: [5, 6, 7] })
  assert.deepEqual(score.parse(await judge.answer('score', VERSION)), [-1.5, -1.5])
  const stale = await judge.answer('score', 'v000000-bbbbbbbb')
  assert.throws(() => score.parse(stale), { code: 'Model.NotServed' })
  const tokenize = dialect.tokenize({ policy: VERSION, text: 'a' })
  assert.deepEqual(tokenize.parse(await judge.answer('tokens', VERSION)), [5, 6])
  assert.deepEqual(dialect.served().parse(await judge.answer('models', VERSION)), [VERSION])
}
