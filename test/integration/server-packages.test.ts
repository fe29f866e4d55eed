/**
 * What our client sends, held against the request classes of the real serving engines, and their answers against our reader.
 * The packages are installed without their dependencies, so no model runs here: this says that every field is known, that none
 * is left to a server's defaults, and that an answer in their shape is understood. It says nothing about their numbers.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import type { SampleRequest } from '../../src/contracts/policy.types.ts'
import type { Dialect, Send } from '../../src/adapters/policy-server/dialect.ts'
import { sglangDialect } from '../../src/adapters/policy-server/sglang-dialect.ts'
import { startCommand, startPositions } from '../../src/adapters/policy-server/start-command.ts'
import { sleepUntilLoad, vllmDialect } from '../../src/adapters/policy-server/vllm-dialect.ts'
import { stateRope } from '../../src/adapters/trainer-job/job/rope-statement.ts'
import { findPackages, type Judge, startJudge } from '../support/server-packages/judge.ts'

const VERSION = 'v000001-aaaaaaaa'
const request: SampleRequest = {
  policy: VERSION,
  promptIds: [5, 6, 7],
  maxTokens: 4,
  seed: 11,
  sampling: { ...NEUTRAL_SAMPLING, temperature: 0.7 },
  stopTokenIds: [2],
  session: 'run/rft/0001/task/00',
}
const packages = await findPackages()
const skip = 'skip' in packages ? packages.skip : false

const python = 'python' in packages ? packages.python : ''

describe('vLLM', { skip }, () => {
  const restarted = vllmDialect({ reload: false })
  const reloaded = vllmDialect({ reload: true })
  let judge: Judge
  before(async () => {
    judge = startJudge({ python, of: 'vllm' })
    assert.equal(await judge.version(), '0.33.0')
  })
  after(() => judge.stop())

  test('it knows every field of every request', async () => {
    await assertKnown(judge, restarted)
    await assertKnown(judge, reloaded)
  })

  test('a server with biased defaults samples as the request asked', async () => {
    for (const dialect of [restarted, reloaded]) {
      const { read, left_to_server: left } = await judge.judge(dialect.sample(request))
      assert.deepEqual(left, [])
      assert.ok(read)
      const { top_k: topK, ...others } = read
      assert.ok(topK === -1 || topK === 0, 'top_k must be off, as -1 or 0')
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
      const score = await judge.judge(dialect.score({ policy: VERSION, ids: [5, 6, 7] }))
      assert.deepEqual(score.left_to_server, [])
      assert.equal(score.read?.['prompt_logprobs'], 0)
      assert.equal(score.read?.['temperature'], 1)
    }
  })

  test('an unknown field and a refused salt are detected', async () => {
    const exchange = restarted.sample(request)
    const misspelt = { ...exchange, body: { ...exchange.body, top_p_: 1 } }
    assert.deepEqual((await judge.judge(misspelt)).unknown, ['top_p_'])
    const salted = { ...exchange, body: { ...exchange.body, cache_salt: `${VERSION}/score` } }
    assert.match((await judge.judge(salted)).error ?? '', /cache_salt/)
    const { read } = await judge.judge({ ...exchange, body: { model: VERSION, prompt: [5] } })
    assert.equal(read?.['top_k'], 20, 'the server fills in omitted fields')
    assert.equal(read?.['watermarking'], null)
  })

  test('answers of its own classes can be read', async () => {
    await assertRead(judge, restarted, 'models')
    await assertRead(judge, reloaded, 'label')
  })

  test('it knows the calls that load new weights, which set the label first and last', async () => {
    assert.deepEqual(await stepsOfLoading(judge, reloaded, { '/weight_info': 'label' }), [
      '/weight_info',
      '/pause',
      '/update_weight_version loading-v000001-aaaaaaaa',
      '/collective_rpc',
      '/update_weight_version v000001-aaaaaaaa',
      '/resume',
      '/weight_info',
    ])
  })

  test('it knows the calls for sleep before a training job and for waking at the next load', async () => {
    const answers = { '/weight_info': 'label', '/is_sleeping': 'asleep' }
    assert.deepEqual(await stepsOf(judge, answers, sleepUntilLoad), [
      '/update_weight_version asleep-until-a-load',
      '/sleep',
      '/is_sleeping',
    ])
    assert.deepEqual(await stepsOfLoading(judge, reloaded, answers, 'asleep-until-a-load'), [
      '/weight_info',
      '/pause',
      '/update_weight_version loading-v000001-aaaaaaaa',
      '/wake_up',
      '/collective_rpc',
      '/wake_up',
      '/update_weight_version v000001-aaaaaaaa',
      '/resume',
      '/weight_info',
    ])
  })
})

describe('SGLang', { skip }, () => {
  const dialect = sglangDialect({ reload: true })
  let judge: Judge
  before(async () => {
    judge = startJudge({ python, of: 'sglang' })
    assert.equal(await judge.version(), '0.5.23')
  })
  after(() => judge.stop())

  test('it knows every field of every request', () => assertKnown(judge, dialect))

  test('a server with biased preferences samples as the request asked', async () => {
    const { read, left_to_server: left } = await judge.judge(dialect.sample(request))
    assert.deepEqual(left, [])
    assert.ok(read)
    const { rid, ...others } = read
    assert.equal(typeof rid, 'string')
    assert.deepEqual(others, {
      max_new_tokens: 4,
      min_new_tokens: 0,
      n: 1,
      temperature: 0.7,
      top_p: 1,
      // The whole vocabulary, in its spelling.
      top_k: 2 ** 30,
      min_p: 0,
      repetition_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      sampling_seed: 11,
      stop: [],
      stop_regex: [],
      stop_token_ids: [2],
      ignore_eos: false,
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      no_stop_trim: false,
      logit_bias: {},
      return_logprob: true,
      logprob_start_len: -1,
      top_logprobs_num: 0,
      return_text_in_logprobs: false,
      return_prompt_token_ids: true,
      stream: false,
      cache_salt: VERSION,
    })
    const score = await judge.judge(dialect.score({ policy: VERSION, ids: [5, 6, 7] }))
    assert.deepEqual(score.left_to_server, [])
    assert.equal(score.read?.['logprob_start_len'], 0)
  })

  test('an unknown field is detected in the request and in its sampling parameters', async () => {
    const exchange = dialect.sample(request)
    const misspelt = { ...exchange, body: { ...exchange.body, input_ids_: [1] } }
    assert.match((await judge.judge(misspelt)).error ?? '', /input_ids_/)
    const nested = { ...exchange, body: { input_ids: [1], sampling_params: { top_n: 1 } } }
    assert.match((await judge.judge(nested)).error ?? '', /top_n/)
    const pause = { path: '/pause_generation', body: { mode: 'abort', modus: 1 }, policy: null, parse: () => null }
    assert.deepEqual((await judge.judge(pause)).unknown, ['modus'])
  })

  test('answers in its shape can be read', () => assertRead(judge, dialect, 'models'))

  test('it knows the calls that load new weights, which set the label first and last', async () => {
    const answers = { '/model_info': 'models', '/update_weights_from_disk': 'updated' }
    assert.deepEqual(await stepsOfLoading(judge, dialect, answers), [
      '/model_info',
      '/pause_generation',
      '/update_weight_version loading-v000001-aaaaaaaa',
      '/update_weights_from_disk v000001-aaaaaaaa',
      '/continue_generation',
      '/model_info',
    ])
  })
})

/** Loads a policy into a server that answers as the package does, and has every step judged. */
async function stepsOfLoading(
  judge: Judge,
  dialect: Dialect,
  answers: Record<string, string>,
  held = 'v000000-bbbbbbbb',
): Promise<string[]> {
  const policy = { version: VERSION, uri: 'file:///policies/a', manifestSha256: '', globalStep: 1 }
  const ask = { policy: { ...policy, checkpointUri: null, checkpointSha256: null }, holder: 'train/a', leaseMs: 1 }
  return stepsOf(judge, answers, (send) => dialect.load(ask, send), held)
}

async function stepsOf(
  judge: Judge,
  answers: Record<string, string>,
  work: (send: Send) => Promise<void>,
  held = 'v000000-bbbbbbbb',
): Promise<string[]> {
  const steps: string[] = []
  let version = held
  const send: Send = async (exchange) => {
    const { unknown, error } = await judge.judge(exchange)
    assert.deepEqual({ path: exchange.path, unknown, error }, { path: exchange.path, unknown: [], error: undefined })
    const { new_version: renamed, weight_version: loaded } = (exchange.body ?? {}) as Record<string, string>
    version = renamed ?? loaded ?? version
    const path = exchange.path.split('?')[0] ?? ''
    const label = renamed ?? loaded
    steps.push(label === undefined ? path : `${path} ${label}`)
    const what = answers[path]
    return exchange.parse(what === undefined ? {} : await judge.answer(what, version))
  }
  await work(send)
  return steps
}

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

async function assertRead(judge: Judge, dialect: Dialect, served: string): Promise<void> {
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
  assert.deepEqual(dialect.served().parse(await judge.answer(served, VERSION)), [VERSION])
}

describe('start commands', { skip }, () => {
  const wanted = {
    directory: '/policies/a b',
    version: VERSION,
    context: 65_536,
    dtype: 'bfloat16',
    port: 8123,
  } as const

  test('vLLM: its own parser reads every flag, and it knows each variable', async (t) => {
    const judge = startJudge({ python, of: 'vllm' })
    t.after(() => judge.stop())
    const known = await judge.environment()
    for (const publish of ['restart', 'reload'] as const) {
      const { command, environment } = startCommand({
        kind: 'vllm',
        ...wanted,
        publish,
        deterministic: true,
        sleeps: publish === 'reload',
      })
      assert.deepEqual(command.slice(0, 2), ['vllm', 'serve'])
      const read = await judge.parse(command.slice(2))
      assert.equal(read.error, undefined)
      assert.deepEqual(pick(read, 'model_tag', 'served_model_name', 'generation_config', 'logprobs_mode', 'seed'), {
        model_tag: '/policies/a b',
        served_model_name: publish === 'reload' ? ['policy', `started-with-${VERSION}`] : [VERSION],
        generation_config: 'vllm',
        logprobs_mode: 'processed_logprobs',
        seed: 0,
      })
      assert.deepEqual(pick(read, 'max_model_len', 'dtype', 'kv_cache_dtype', 'port'), {
        max_model_len: 65_536,
        dtype: 'bfloat16',
        kv_cache_dtype: 'auto',
        port: 8123,
      })
      // Nothing else that changes what is sampled.
      assert.deepEqual(pick(read, 'speculative_config', 'logits_processors', 'watermark_config', 'quantization'), {
        speculative_config: null,
        logits_processors: null,
        watermark_config: null,
        quantization: null,
      })
      assert.deepEqual(
        Object.keys(environment).filter((name) => !known.includes(name)),
        [],
      )
      assert.equal(environment['VLLM_SERVER_DEV_MODE'], publish === 'reload' ? '1' : undefined)
    }
    assert.match((await judge.parse(['/m', '--logprobs-mode', 'processed'])).error ?? '', /SystemExit/)
    assert.match((await judge.parse(['/m', '--generation-configs', 'vllm'])).error ?? '', /SystemExit/)
  })

  test('SGLang: its own parser reads every flag, and it knows each variable', async (t) => {
    const judge = startJudge({ python, of: 'sglang' })
    t.after(() => judge.stop())
    const { command, environment } = startCommand({ kind: 'sglang', ...wanted, publish: 'reload', deterministic: true })
    assert.deepEqual(command.slice(0, 3), ['python', '-m', 'sglang.launch_server'])
    const read = await judge.parse(command.slice(3))
    assert.equal(read.error, undefined)
    assert.deepEqual(
      pick(read, 'model_path', 'weight_version', 'sampling_defaults', 'context_length', 'dtype', 'random_seed'),
      {
        model_path: '/policies/a b',
        weight_version: VERSION,
        sampling_defaults: 'openai',
        context_length: 65_536,
        dtype: 'bfloat16',
        random_seed: 0,
      },
    )
    assert.deepEqual(
      pick(read, 'enable_deterministic_inference', 'sampling_backend', 'enable_watermark', 'preferred_sampling_params'),
      {
        enable_deterministic_inference: true,
        sampling_backend: 'pytorch',
        enable_watermark: false,
        preferred_sampling_params: null,
      },
    )
    const known = await judge.environment()
    assert.deepEqual(
      Object.keys(environment).filter((name) => !known.includes(name)),
      [],
    )
    assert.equal((await judge.parse(['--model-path', 'm'])).error, undefined)
    assert.equal((await judge.parse(['--model-path', 'm']))['sampling_defaults'], 'model', 'the server needs the flag')
    assert.match((await judge.parse(['--model-path', 'm', '--sampling-default', 'openai'])).error ?? '', /SystemExit/)
  })
})

test('each engine reads the API key of a server on all interfaces in its own way', { skip }, async (t) => {
  const open = { directory: '/p', version: VERSION, context: 4096, dtype: 'bfloat16', port: 1 } as const
  const asked = { ...open, publish: 'restart', deterministic: true, host: '::', apiKeyVariable: 'KEY' } as const
  const [vllm, sglang] = (['vllm', 'sglang'] as const).map((of) => startJudge({ python, of }))
  assert.ok(vllm && sglang)
  t.after(() => Promise.all([vllm.stop(), sglang.stop()]))
  const ofVllm = startCommand({ kind: 'vllm', ...asked }).command
  assert.match(ofVllm[2] ?? '', /^VLLM_API_KEY=/)
  assert.ok((await vllm.environment()).includes('VLLM_API_KEY'))
  assert.equal((await vllm.parse(ofVllm.slice(6)))['host'], '::')
  const ofSglang = startCommand({ kind: 'sglang', ...asked }).command
  const [, flag = ''] = / (--[a-z-]+) "/.exec(ofSglang[2] ?? '') ?? []
  assert.equal((await sglang.parse([...ofSglang.slice(7), flag, 'secret']))['api_key'], 'secret')
})

function pick(read: Record<string, unknown>, ...names: string[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, read[name]]))
}

describe('the rope', { skip }, () => {
  const native = '{"max_position_embeddings": 32768, "rope_theta": 1000000.0, "rope_parameters": null}'
  const stated = stateRope(native, { type: 'yarn', factor: 4, originalMax: 32_768 })
  const wanted = {
    directory: '/policies/a',
    version: VERSION,
    context: 131_072,
    dtype: 'bfloat16',
    port: 8123,
    publish: 'restart',
    deterministic: true,
  } as const
  const expected = {
    rope_parameters: { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 32_768, rope_theta: 1e6 },
    max_position_embeddings: 131_072,
  }

  for (const [of, skipped, flag] of [
    ['vllm', 2, 'hf_overrides'],
    ['sglang', 3, 'json_model_override_args'],
  ] as const) {
    test(`${of}: its parser reads the rope, and its own rule accepts the longer context only with it`, async (t) => {
      const judge = startJudge({ python, of })
      t.after(() => judge.stop())
      const positions = startPositions({ ...wanted, configJson: stated })
      const { command } = startCommand({ kind: of, ...wanted, ...positions })
      const read = await judge.parse(command.slice(skipped))
      assert.equal(read.error, undefined)
      const overrides = read[flag]
      assert.deepEqual(typeof overrides === 'string' ? JSON.parse(overrides) : overrides, expected)
      const asked = wanted.context
      const plain = JSON.parse(native) as object
      // By the directory alone, and by the flag alone.
      assert.equal((await judge.longest({ config: JSON.parse(stated) as object, overrides: {}, asked })).tokens, asked)
      assert.equal((await judge.longest({ config: plain, overrides: expected, asked })).tokens, asked)
      assert.match((await judge.longest({ config: plain, overrides: {}, asked: 65_536 })).error ?? '', /32768/)
    })
  }
})
