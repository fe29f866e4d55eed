import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef, SampleRequest } from '../../contracts/policy.types.ts'
import { createPolicyClient } from './client.ts'
import { listenOnLoopback } from '../../../test/support/loopback.ts'

const VERSION = 'v000001-aaaaaaaa'
const request: SampleRequest = {
  policy: VERSION,
  promptIds: [5, 6, 7],
  maxTokens: 4,
  seed: 11,
  sampling: NEUTRAL_SAMPLING,
  stopTokenIds: [2],
  session: 'run/rft/0001/task/00',
}
const choice = {
  token_ids: [8, 2],
  prompt_token_ids: [5, 6, 7],
  logprobs: { token_logprobs: [-0.5, -0.25] },
  finish_reason: 'stop',
  text: 'x',
}
const good = { model: VERSION, choices: [choice] }
const never = new AbortController().signal

type Script = (request: IncomingMessage, response: ServerResponse, body: string) => void

/** Longer than a busy machine takes for an exchange, and shorter than the `Retry-After` of a test that must not wait for it. */
const PATIENCE = { requestMs: 20_000, giveUpAfterMs: 20_000 }

/** A real HTTP server that misbehaves as told: the n-th request gets the n-th script, the last one stays. */
async function serve(t: TestContext, ...scripts: Script[]) {
  const seen: { headers: IncomingMessage['headers']; body: Record<string, unknown> }[] = []
  const server = createServer((incoming, response) => {
    let body = ''
    incoming.on('data', (chunk) => (body += chunk))
    incoming.on('end', () => {
      seen.push({ headers: incoming.headers, body: body === '' ? {} : (JSON.parse(body) as Record<string, unknown>) })
      scripts[Math.min(seen.length, scripts.length) - 1]?.(incoming, response, body)
    })
  })
  const port = await listenOnLoopback(server)
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${port}`
  return { seen, url, client: createPolicyClient({ kind: 'embedded', url, timeouts: PATIENCE }) }
}

const reply =
  (status: number, body: unknown, headers: Record<string, string> = {}): Script =>
  (_request, response) =>
    response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body))
const answer = (changes: object): Script => reply(200, { ...good, choices: [{ ...choice, ...changes }] })

test('a sample request has every decoding field, the version as salt and the episode as affinity', async (t) => {
  const { client, seen } = await serve(t, reply(200, good))
  const { tookMs, ...sample } = await client.sample(request, never)
  assert.equal(typeof tookMs, 'number')
  assert.deepEqual(sample, {
    ids: [8, 2],
    logprobs: [-0.5, -0.25],
    text: 'x',
    finishReason: 'stop',
    policy: VERSION,
  })
  const { request_id: requestId, ...body } = seen[0]?.body ?? {}
  assert.equal(typeof requestId, 'string')
  assert.deepEqual(body, {
    model: VERSION,
    prompt: [5, 6, 7],
    max_tokens: 4,
    n: 1,
    temperature: 1,
    top_p: 1,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    watermarking: false,
    seed: 11,
    stop_token_ids: [2],
    ignore_eos: false,
    min_tokens: 0,
    stream: false,
    echo: false,
    logprobs: 0,
    return_token_ids: true,
    return_weight_versions: true,
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
    include_stop_str_in_output: false,
    cache_salt: VERSION,
  })
  assert.equal(seen[0]?.headers['x-session-id'], 'run%2Frft%2F0001%2Ftask%2F00')
})

/** The story: a server is restarted while an episode of five minutes samples, and the episode ends as if its policy had been slow. */
test('says how long the answered request took, without the tries and waits before it', async (t) => {
  const { client } = await serve(t, reply(503, {}, { 'Retry-After': '0.3' }), reply(200, good))
  const askedMs = performance.now()
  const { tookMs = Number.NaN } = await client.sample(request, never)
  assert.ok(tookMs <= Math.ceil(performance.now() - askedMs) - 300, `${tookMs} ms`)
})

test('refuses a server that returns no ids, or answers with other weights, at once', async (t) => {
  for (const changes of [{ token_ids: null }, { token_ids: undefined }, { prompt_token_ids: null }]) {
    const { client, seen } = await serve(t, answer(changes))
    await assert.rejects(client.sample(request, never), { code: 'Model.NoTokenIds' })
    assert.equal(seen.length, 1)
  }
  const other = await serve(t, reply(200, { ...good, model: 'v000000-bbbbbbbb' }))
  await assert.rejects(other.client.sample(request, never), { code: 'Model.NotServed' })
  const stale = await serve(t, answer({ weight_versions: [{ version: 'v000000-bbbbbbbb', start: 0, end: 2 }] }))
  await assert.rejects(stale.client.sample(request, never), { code: 'Model.NotServed' })
})

test('refuses a reply that the server cut below the requested number of tokens at once', async (t) => {
  const { client, seen } = await serve(t, answer({ finish_reason: 'length' }))
  await assert.rejects(client.sample(request, never), { code: 'Model.Biased', message: /max_new_tokens/ })
  assert.equal(seen.length, 1)
  const whole = { finish_reason: 'length', token_ids: [8, 9, 8, 9], logprobs: { token_logprobs: [-1, -1, -1, -1] } }
  const right = await serve(t, answer(whole))
  assert.equal((await right.client.sample(request, never)).finishReason, 'length')
})

test('retries an inconsistent answer and never accepts it', async (t) => {
  const faults: Script[] = [
    answer({ logprobs: { token_logprobs: [-0.5] } }),
    answer({ logprobs: { token_logprobs: [-0.5, 3] } }),
    answer({ prompt_token_ids: [5, 6] }),
    // A batch would hold it as token 8.
    answer({ token_ids: [2 ** 32 + 8, 2] }),
    answer({ token_ids: [8.5, 2] }),
    answer({ token_ids: ['8', 2] }),
    answer({ token_ids: [8, 2, 2, 2, 2], logprobs: { token_logprobs: [-1, -1, -1, -1, -1] } }),
    answer({ finish_reason: 'abort' }),
    reply(200, '{"model": "v0000'),
  ]
  for (const fault of faults) {
    const { client, seen } = await serve(t, fault, reply(200, good))
    assert.equal((await client.sample(request, never)).policy, VERSION)
    assert.equal(seen.length, 2)
  }
})

test('reads no more of an answer than the request can honestly have, and never a long error', async (t) => {
  const many = { ...request, promptIds: Array.from({ length: 2_000 }, () => 151_642), maxTokens: 2_000 }
  const longest = '━'.repeat(42)
  const texts = Array.from({ length: many.maxTokens }, () => longest)
  // Each token is told as fully, and has as long a text, as engines can.
  const full = {
    ...choice,
    token_ids: Array.from(texts, () => 151_642),
    prompt_token_ids: many.promptIds,
    logprobs: {
      token_logprobs: Array.from(texts, () => -12.345678901234567),
      tokens: texts,
      top_logprobs: texts.map((text) => ({ [text]: -12.345678901234567 })),
      text_offset: texts.map((text, index) => index * text.length),
    },
    finish_reason: 'length',
    text: texts.join(''),
  }
  const honest = await serve(t, reply(200, { ...good, choices: [full] }))
  assert.equal((await honest.client.sample(many, never)).ids.length, many.maxTokens)

  const flood = `{"data": [${'[],'.repeat(3_000_000)}[]]}`
  for (const [status, message] of [
    [200, /answer over \d+ bytes/],
    [503, /answer over 1048576 bytes/],
  ] as const) {
    const { url } = await serve(t, reply(status, flood))
    const client = createPolicyClient({ kind: 'vllm', url, publish: 'reload', timeouts: { giveUpAfterMs: 1 } })
    for (const asked of [
      () => client.sample(request, never),
      () => client.tokenize({ policy: VERSION, text: 'short' }, never),
      () => client.score({ policy: VERSION, ids: [1, 2] }, never),
      () => client.served(never),
    ]) {
      await assert.rejects(asked, { code: 'Model.Unavailable', message })
    }
  }
})

test('a log-probability that is not finite arrives as NaN, which the batch writer drops', async (t) => {
  // JSON has no infinity: it comes as null, or as the number that vLLM writes for it.
  for (const spelled of [null, -9999]) {
    const { client } = await serve(t, answer({ logprobs: { token_logprobs: [spelled, -0.25] } }))
    assert.deepEqual((await client.sample(request, never)).logprobs, [Number.NaN, -0.25])
  }
})

test('retries after too many requests, restarts and torn answers', async (t) => {
  const faults: Script[] = [
    reply(429, { error: { message: 'slow down' } }, { 'retry-after': '0.05' }),
    reply(503, 'reloading', { 'retry-after': '0' }),
    reply(500, { error: { message: 'oops', code: 'internal_error' } }),
    (_request, response) => response.destroy(),
    (_request, response) =>
      response.writeHead(200, { 'content-length': '1000' }).write('{"model"', () => response.destroy()),
  ]
  for (const fault of faults) {
    const { client, seen } = await serve(t, fault, reply(200, good))
    assert.equal((await client.sample(request, never)).policy, VERSION)
    assert.equal(seen.length, 2)
  }
})

test('repeats a request that is not answered in time', async (t) => {
  const { seen, url } = await serve(t, () => undefined, reply(200, good))
  const client = createPolicyClient({ kind: 'embedded', url, timeouts: { ...PATIENCE, requestMs: 300 } })
  assert.equal((await client.sample(request, never)).policy, VERSION)
  // On a busy machine the good answer may come too late as well.
  assert.ok(seen.length >= 2)
})

test('each kind of failure has its code after the timeout', async (t) => {
  const cases: [Script, string, says?: RegExp][] = [
    [reply(429, 'slow down', { 'retry-after': '30' }), 'Model.RateLimited'],
    [reply(503, 'reloading', { 'retry-after': '30' }), 'Model.Unavailable'],
    [reply(500, 'bug'), 'Model.Unavailable'],
    [reply(404, { error: { message: 'not served', code: 'model_not_found' } }), 'Model.NotServed'],
    [reply(404, { message: 'The model does not exist.', code: 404 }), 'Model.NotServed'],
    [
      reply(404, { detail: 'Not Found' }),
      'Config.Invalid',
      /correct policyServer\.url or policyServer\.kind: Not Found/,
    ],
    [reply(400, { error: { message: 'too long', code: 'context_length_exceeded' } }), 'Model.ContextOverflow'],
    [reply(400, { error: { message: "This model's maximum context length is 8 tokens" } }), 'Model.ContextOverflow'],
    [reply(400, { error: { message: 'unknown field' } }), 'Config.Invalid'],
    [reply(401, { error: { message: 'no key' } }), 'Config.Invalid', /LONGHAUL_POLICY_API_KEY/],
    [reply(403, { error: { message: 'no key' } }), 'Config.Invalid', /LONGHAUL_POLICY_API_KEY/],
  ]
  for (const [script, code, message = /^/] of cases) {
    const { client } = await serve(t, script)
    await assert.rejects(client.sample(request, never), { code, message })
  }
})

test('does not retry before a Retry-After beyond the timeout, and retries repeatedly without one', async (t) => {
  for (const status of [429, 502, 503, 504]) {
    const told = await serve(t, reply(status, 'later', { 'retry-after': '30' }))
    await assert.rejects(told.client.sample(request, never), { retryable: true })
    assert.equal(told.seen.length, 1, `${status} with Retry-After`)
    const untold = await serve(t, reply(status, 'later'), reply(status, 'later'), reply(200, good))
    assert.equal((await untold.client.sample(request, never)).policy, VERSION)
    assert.equal(untold.seen.length, 3, `${status} without Retry-After`)
  }
})

test('a full server names the holders of its places when a policy is loaded', async (t) => {
  const busy = { error: { code: 'busy', message: 'All 2 places are leased [holders=train/a, train/b]' } }
  const { client, seen } = await serve(t, reply(409, busy))
  const policy: PolicyRef = {
    version: VERSION,
    uri: 'file:///policies/v%201',
    manifestSha256: 'abc',
    globalStep: 1,
    checkpointUri: null,
    checkpointSha256: null,
  }
  const load = client.load({ policy, holder: 'train/c', leaseMs: 60_000 }, never)
  await assert.rejects(load, (error: Error & { code?: string }) => {
    assert.equal(error.code, 'Model.Busy')
    assert.match(error.message, /train\/a, train\/b/)
    return true
  })
  assert.deepEqual(seen[0]?.body, {
    path: '/policies/v 1',
    version: VERSION,
    manifest_sha256: 'abc',
    holder: 'train/c',
    lease_s: 60,
  })
})

test('a caller that cancels gets its own reason, during an exchange and during a pause', async (t) => {
  const reason = new Error('cancelled by the workflow')
  for (const script of [(() => undefined) satisfies Script, reply(503, 'wait', { 'retry-after': '2' })]) {
    const { client } = await serve(t, script)
    const controller = new AbortController()
    const sample = client.sample(request, controller.signal)
    setTimeout(() => controller.abort(reason), 50)
    await assert.rejects(sample, (error) => error === reason)
  }
})

test('a closed port is unavailable and retryable', async () => {
  const timeouts = { requestMs: 100, giveUpAfterMs: 200 }
  const client = createPolicyClient({ kind: 'embedded', url: 'http://127.0.0.1:9', timeouts })
  await assert.rejects(client.served(never), { code: 'Model.Unavailable', retryable: true })
})

test('refuses kinds without token ids, and invalid addresses, before any request', () => {
  assert.throws(() => createPolicyClient({ kind: 'chat', url: 'http://127.0.0.1:9' }), { code: 'Config.Invalid' })
  assert.throws(() => createPolicyClient({ kind: 'vllm', url: 'localhost:8000' }), { code: 'Config.Invalid' })
})

test('a vLLM server with another version names the restart command, and the right one is left alone', async (t) => {
  const { seen, url } = await serve(t, reply(200, { data: [{ id: 'v000009-cccccccc' }] }))
  const client = createPolicyClient({ kind: 'vllm', url })
  const load = (version: string) =>
    client.load(
      {
        policy: {
          version,
          uri: 'file:///x',
          manifestSha256: '',
          globalStep: 0,
          checkpointUri: null,
          checkpointSha256: null,
        },
        holder: 'train/a',
        leaseMs: 1000,
      },
      never,
    )
  await assert.rejects(load(VERSION), { code: 'Model.NotServed', message: /--served-model-name v000001-aaaaaaaa/ })
  await load('v000009-cccccccc')
  await client.release({ holder: 'train/a' })
  assert.equal(seen.length, 2)
})

const generated = {
  text: 'x',
  output_ids: [8, 2],
  prompt_token_ids: [5, 6, 7],
  meta_info: {
    finish_reason: { type: 'stop', matched: 2 },
    weight_version: VERSION,
    output_token_logprobs: [
      [-0.5, 8, null],
      [-0.25, 2, null],
    ],
  },
}

test('SGLang: a sample counts when the requested weights made all of it, with one log-probability per id', async (t) => {
  const meta = (changes: object): Script =>
    reply(200, { ...generated, meta_info: { ...generated.meta_info, ...changes } })
  const client = async (...scripts: Script[]) => {
    const { url } = await serve(t, ...scripts)
    return createPolicyClient({ kind: 'sglang', url, timeouts: PATIENCE })
  }
  const { tookMs: _, ...sample } = await (await client(reply(200, generated))).sample(request, never)
  assert.deepEqual(sample, { ids: [8, 2], logprobs: [-0.5, -0.25], text: 'x', finishReason: 'stop', policy: VERSION })
  const stale = { version: 'v000000-bbbbbbbb', start: 0, end: 1 }
  for (const [script, code] of [
    [meta({ weight_version: 'default' }), 'Model.NotServed'],
    [meta({ weight_versions: [stale, { version: VERSION, start: 1, end: 2 }] }), 'Model.NotServed'],
    [reply(200, { ...generated, output_ids: null }), 'Model.NoTokenIds'],
    [reply(200, { ...generated, prompt_token_ids: undefined }), 'Model.NoTokenIds'],
    [
      reply(400, { error: { message: "The input (9 tokens) is longer than the model's context length (8 tokens)." } }),
      'Model.ContextOverflow',
    ],
  ] as const) {
    await assert.rejects((await client(script)).sample(request, never), { code })
  }
  const shifted = [generated.meta_info.output_token_logprobs[1], generated.meta_info.output_token_logprobs[0]]
  for (const script of [meta({ output_token_logprobs: shifted }), meta({ finish_reason: { type: 'abort' } })]) {
    const again = await client(script, reply(200, generated))
    assert.deepEqual((await again.sample(request, never)).ids, [8, 2])
  }
})

test('a server that reloads in place has the label of loading until the new weights are there, even after a failure', async (t) => {
  let label = 'v000000-bbbbbbbb'
  let isBroken = true
  const { url } = await serve(t, ({ url: path }, response, body) => {
    const asked = body === '' ? {} : (JSON.parse(body) as { new_version?: string })
    label = asked.new_version ?? label
    const isReload = path === '/collective_rpc'
    response.writeHead(isReload && isBroken ? 500 : 200).end(JSON.stringify({ weight_version: label }))
  })
  const client = createPolicyClient({ kind: 'vllm', publish: 'reload', url, timeouts: PATIENCE })
  const policy = { version: VERSION, uri: 'file:///x', manifestSha256: '', globalStep: 0 }
  const load = () =>
    client.load(
      { policy: { ...policy, checkpointUri: null, checkpointSha256: null }, holder: 'train/a', leaseMs: 1000 },
      never,
    )
  await assert.rejects(load(), { code: 'Model.Unavailable' })
  assert.equal(label, `loading-${VERSION}`)
  isBroken = false
  await load()
  assert.deepEqual(await client.served(never), [VERSION])
})

const RELOADS = [
  { kind: 'vllm', first: '/weight_info', route: '/collective_rpc', fix: /VLLM_SERVER_DEV_MODE=1/ },
  {
    kind: 'sglang',
    first: '/model_info',
    route: '/update_weights_from_disk',
    fix: /policy-server command --kind sglang/,
  },
] as const
for (const { kind, first, route, fix } of RELOADS) {
  for (const [status, says] of [
    [404, fix],
    [405, fix],
    [403, /LONGHAUL_POLICY_API_KEY/],
  ] as const) {
    test(`${kind} refuses to reload with ${status}: one error names the fix, and it serves the same policy as before`, async (t) => {
      const before = 'v000000-bbbbbbbb'
      const engine = { label: before, isPaused: false }
      let refuses: string = route
      const { url } = await serve(t, ({ url: path = '' }, response, body) => {
        const [at = ''] = path.split('?')
        if (at === refuses) return response.writeHead(status).end('{"detail":"Not Found"}')
        if (at.startsWith('/pause')) engine.isPaused = true
        if (at === '/resume' || at === '/continue_generation') engine.isPaused = false
        engine.label = (JSON.parse(body === '' ? '{}' : body) as { new_version?: string }).new_version ?? engine.label
        return response.writeHead(200).end(JSON.stringify({ weight_version: engine.label }))
      })
      const client = createPolicyClient({ kind, publish: 'reload', url, timeouts: PATIENCE })
      const policy = { version: VERSION, uri: 'file:///x', manifestSha256: '', globalStep: 0 }
      const load = () =>
        client.load(
          { policy: { ...policy, checkpointUri: null, checkpointSha256: null }, holder: 'train/a', leaseMs: 1000 },
          never,
        )
      const refusal = (error: unknown): boolean => {
        assert.ok(isLonghaulError(error))
        assert.equal(error.code, 'Config.Invalid')
        assert.match(error.message, says)
        assert.match(error.message, /policyServer\.publish: restart/)
        return true
      }
      await assert.rejects(load(), refusal)
      assert.deepEqual(engine, { label: before, isPaused: false })
      refuses = first
      await assert.rejects(load(), refusal)
      assert.deepEqual(engine, { label: before, isPaused: false })
    })
  }
}

/** A vLLM server that reloads in place: the n-th of `labels` is what /weight_info says at the n-th time, the last one stays. */
async function serveReloadable(
  t: TestContext,
  { labels, spans = [null], names = ['policy'], device = { device_type: 'cuda' } }: ReloadableServer,
): Promise<{ client: ReturnType<typeof createPolicyClient>; paths: string[] }> {
  const paths: string[] = []
  let asked = 0
  let answered = 0
  const { url } = await serve(t, ({ url: path = '' }, response) => {
    paths.push(path.split('?')[0] ?? '')
    const weightVersion = (): string | undefined => labels[Math.min(asked++, labels.length - 1)]
    const body = path.startsWith('/weight_info')
      ? { weight_version: weightVersion() }
      : path.startsWith('/v1/models')
        ? { data: names.map((id) => ({ id })) }
        : path.startsWith('/server_info')
          ? { vllm_config: { device_config: device } }
          : {
              model: 'policy',
              choices: [{ ...choice, weight_versions: spans[Math.min(answered++, spans.length - 1)] }],
            }
    if (path.startsWith('/server_info') && device === null) {
      return response.writeHead(404).end('{"detail":"Not Found"}')
    }
    return response.writeHead(200).end(JSON.stringify(body))
  })
  return { client: createPolicyClient({ kind: 'vllm', publish: 'reload', url }), paths }
}

interface ReloadableServer {
  labels: string[]
  /** Of the n-th answer, as vLLM from 0.33 on gives them; null: none. The last one stays. @default none at all */
  spans?: (object[] | null)[]
  names?: string[]
  /** As `/server_info` states it. Null: no such route. */
  device?: object | null
}

test('answers without weights count between two labels of the requested version; those with weights need none', async (t) => {
  const named = await serveReloadable(t, { labels: [], spans: [[{ version: VERSION, start: 0, end: 2 }]] })
  await named.client.sample(request, never)
  assert.deepEqual(named.paths, ['/v1/completions'])

  const silent = await serveReloadable(t, { labels: [VERSION] })
  await silent.client.sample(request, never)
  await silent.client.sample(request, never)
  const witnessed = ['/weight_info', '/v1/completions', '/weight_info']
  assert.deepEqual(silent.paths, ['/v1/completions', ...witnessed, ...witnessed])
})

test('refuses an unlabelled answer when the server held other weights before or after it', async (t) => {
  const other = 'v000000-bbbbbbbb'
  for (const labels of [[other], [VERSION, other], [VERSION, `loading-${other}`], ['default'], ['']]) {
    const { client } = await serveReloadable(t, { labels })
    await assert.rejects(client.sample(request, never), { code: 'Model.NotServed' }, labels.join())
  }
  // A label in the answer is heard also where the server was silent before.
  const spans = [
    null,
    [
      { version: VERSION, start: 0, end: 1 },
      { version: other, start: 1, end: 2 },
    ],
  ]
  const mixed = await serveReloadable(t, { labels: [VERSION], spans })
  await assert.rejects(mixed.client.sample(request, never), { code: 'Model.NotServed' })
})

test('a restarted server that has not reloaded serves the policy that it was started with', async (t) => {
  const names = ['policy', `started-with-${VERSION}`]
  for (const span of [[{ version: 'default', start: 0, end: 2 }], null]) {
    const { client } = await serveReloadable(t, { labels: ['default'], names, spans: [span] })
    assert.deepEqual((await client.sample(request, never)).ids, [8, 2])
    assert.deepEqual(await client.served(never), [VERSION])
  }
  const reloaded = await serveReloadable(t, { labels: ['v000000-bbbbbbbb'], names })
  await assert.rejects(reloaded.client.sample(request, never), { code: 'Model.NotServed' })
})

test('refuses to reload a policy with tied embeddings on a CPU before it changes the server', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'tied-'))
  t.after(() => rm(directory, { recursive: true }))
  const load = async ({ tied, device }: { tied: boolean; device: object | null }) => {
    await writeFile(join(directory, 'config.json'), JSON.stringify({ tie_word_embeddings: tied }))
    const server = await serveReloadable(t, { labels: ['v000000-bbbbbbbb', VERSION], device })
    const uri = pathToFileURL(directory).href
    const policy = {
      version: VERSION,
      uri,
      manifestSha256: '',
      globalStep: 0,
      checkpointUri: null,
      checkpointSha256: null,
    }
    return { ...server, done: server.client.load({ policy, holder: 'train/a', leaseMs: 1_000 }, never) }
  }
  for (const device of [{ device_type: 'cpu' }, { device: 'cpu' }]) {
    const refused = await load({ tied: true, device })
    await assert.rejects(refused.done, { code: 'Config.Invalid', message: /publish: restart/ })
    assert.deepEqual(refused.paths, ['/weight_info', '/server_info'])
  }
  for (const fine of [
    { tied: true, device: { device_type: 'cuda' } },
    { tied: true, device: { device: 'cuda' } },
    { tied: true, device: null },
    { tied: false, device: { device: 'cpu' } },
  ]) {
    const { done, paths } = await load(fine)
    await done
    assert.ok(paths.includes('/collective_rpc'))
  }
})
