/**
 * Lies that a running vLLM tells by its own flags and routes, before the checks of publishing and the adapter. The embedded server
 * plays the rest (`lying-servers.test.ts`). Where two lies of one start reach different checks, each check is asked alone.
 */
import assert from 'node:assert/strict'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Canary } from '../../src/adapters/policy-server/canary-rules.ts'
import { verifyCanaryRows, verifyTokenizer, verifyWindow } from '../../src/adapters/policy-server/canary.ts'
import { createPolicyClient } from '../../src/adapters/policy-server/client.ts'
import { selfCheck } from '../../src/adapters/policy-server/self-check.ts'
import { spellOverrides } from '../../src/adapters/trainer-job/job/rope-statement.ts'
import { isLonghaulError } from '../../src/contracts/errors.ts'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import type { PolicyClient, PolicyRef, SampleRequest } from '../../src/contracts/policy.types.ts'
import { HANG_MS } from '../support/hang.ts'
import type { LiveEngine } from '../support/live-engine/engine-process.ts'
import { findVllm, startVllm, type StartVllmInput } from '../support/live-engine/vllm.ts'
import { freePort } from '../support/loopback.ts'
import {
  type AskedServer,
  makeCanary,
  refusedBy,
  TOLERANCE,
  windowOf,
  writePairs,
} from '../support/lying-servers/lies.ts'
import { runPython, startPolicyServer, withoutPython } from '../support/python.ts'

const found = withoutPython === false ? await findVllm() : { skip: withoutPython }
/** Four times the positions that the policies were trained with. */
const CONTEXT = 512
const MODULES = join(import.meta.dirname, '../support/live-engine')

describe('a vLLM server that misreports', { skip: 'skip' in found ? found.skip : false }, () => {
  const signal = AbortSignal.timeout(3 * HANG_MS)
  let root: string
  let port: number
  let older: PolicyRef
  let newer: PolicyRef
  let canary: Canary
  let window: string
  let overrides: string
  let engine: LiveEngine | null = null

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'longhaul-lying-vllm-'))
    port = await freePort()
    // qwen2: a vLLM on a CPU reloads only policies with an output head of their own.
    const [pair] = await writePairs({ root, families: ['qwen2'], hidden: 128 })
    assert.ok(pair !== undefined)
    ;[older, newer] = pair.map((policy) => ({ ...policy, version: versionOf(policy.globalStep) })) as typeof pair
    window = windowOf({ root, seed: 0 })
    overrides = spellOverrides(await readFile(join(fileURLToPath(newer.uri), 'config.json'), 'utf8')) ?? ''
    const embedded = await startPolicyServer({ state: join(root, 'state'), maxVersions: 2 })
    try {
      const trainer = createPolicyClient({ kind: 'embedded', url: embedded.url })
      for (const policy of [older, newer]) await trainer.load({ policy, holder: 'test', leaseMs: 3_600_000 }, signal)
      canary = await makeCanary(trainer, [older, newer], signal)
    } finally {
      await embedded.stop()
    }
  })
  after(async () => {
    await engine?.kill()
    await rm(root, { recursive: true, force: true })
  })

  describe('its weights, its samples and its generation config', () => {
    let client: PolicyClient
    let kept: string
    /** No check of publishing asks for more tokens, so the server's limit is its only lie that they do not see. */
    const LONGEST = 64

    before(async () => {
      kept = join(root, 'keep')
      const generation = join(root, 'generation')
      await mkdir(generation)
      const filters = { temperature: 0.3, top_k: 5, top_p: 0.5, min_p: 0.2, repetition_penalty: 1.5 }
      await writeFile(
        join(generation, 'generation_config.json'),
        JSON.stringify({ ...filters, do_sample: true, max_new_tokens: LONGEST }),
      )
      // What an honest server may have otherwise than most: no prefix cache. On a CPU vLLM 0.32.0 dies of a seed in a prompt that it
      // reads in pieces.
      const processors = ['--no-enable-prefix-caching', '--logits-processors', 'keep_likeliest:KeepLikeliest']
      await start(older, {
        publish: 'reload',
        more: [...processors, '--generation-config', generation],
        variables: { PYTHONPATH: MODULES, KEEP_LIKELIEST: kept },
      })
      client = connect('reload')
      await writeMixtures(['half', 'old-head'])
    })

    test('an honest server without a prefix cache passes', async () => {
      await load(newer)
      assert.equal(await refusedBy(asked({ client })), null)
    })

    test('the self-check refuses a logits processor of the operator that keeps 20 tokens', async () => {
      await writeFile(kept, '')
      try {
        assert.equal(await refusedBy(asked({ client })), 'self-check')
      } finally {
        await rm(kept)
      }
    })

    test('a reply that was cut below the requested number of tokens is refused', async () => {
      const ends = await Promise.allSettled(
        Array.from({ length: 8 }, (_, seed) => client.sample(request({ maxTokens: 2 * LONGEST, seed }), signal)),
      )
      const refused = ends.filter((end) => end.status === 'rejected')
      assert.ok(refused.length > 0, 'every reply had ended before the limit')
      for (const { reason } of refused) {
        assert.ok(isLonghaulError(reason) && reason.code === 'Model.Biased', String(reason))
        assert.match(reason.message, /max_new_tokens/)
      }
    })

    test('temperature, filters and penalty of the server have no effect, because each request sets its own', async () => {
      const promptIds = [11, 12, 13]
      const asks = Array.from({ length: 24 }, (_, seed) => request({ promptIds, maxTokens: LONGEST / 4, seed }))
      const told: number[] = []
      const scored: number[] = []
      for (const { ids, logprobs } of await Promise.all(asks.map((ask) => client.sample(ask, signal)))) {
        const scores = await client.score({ policy: newer.version, ids: [...promptIds, ...ids] }, signal)
        told.push(...logprobs)
        scored.push(...scores.slice(promptIds.length - 1))
      }
      const worst = Math.max(...told.map((one, at) => Math.abs(one - (scored[at] ?? Number.NaN))))
      assert.ok(worst < TOLERANCE.float32, String(worst))
    })

    for (const [at, name] of (['half', 'old-head'] as const).entries()) {
      const what = { half: 'half of the new weights', 'old-head': 'the new weights but for the output head' }[name]
      test(`the canary refuses a server that read ${what} under the new label`, async () => {
        await load(older)
        const uri = pathToFileURL(join(root, name)).href
        const version = versionOf(2 + at)
        await load({ ...newer, uri, version })
        assert.deepEqual(await client.served(signal), [version])
        assert.equal(await refusedBy({ ...asked({ client }), policy: version }), 'canary')
      })
    }

    async function load(policy: PolicyRef): Promise<void> {
      await client.load({ policy, holder: 'test', leaseMs: 60_000 }, signal)
    }
  })

  describe('its log-probabilities and the base of its rope', () => {
    let client: PolicyClient

    before(async () => {
      const { rope_parameters: rope, ...others } = JSON.parse(overrides) as { rope_parameters: { rope_theta: number } }
      const other = JSON.stringify({ ...others, rope_parameters: { ...rope, rope_theta: rope.rope_theta / 100 } })
      await start(newer, { more: ['--hf-overrides', other, '--logprobs-mode', 'raw_logprobs'] })
      client = connect('restart')
    })

    test('the canary and the window of a base policy both refuse the changed rope', async () => {
      const { policy, tolerance } = asked({ client })
      const mismatch = { code: 'Model.CanaryMismatch' }
      await assert.rejects(verifyCanaryRows({ client, policy, canary, tolerance, signal }), mismatch)
      await assert.rejects(verifyWindow({ client, policy, path: window, tolerance, signal }), mismatch)
    })

    test('the tokenizer check passes, because the tokenizer is the policy’s own', () =>
      verifyTokenizer({ client, policy: newer, signal }))

    test('the self-check refuses raw log-probabilities', async () => {
      const { policy, tolerance } = asked({ client })
      const biased = { code: 'Model.Biased', message: /raw ones/ }
      await assert.rejects(selfCheck({ client, policy, tolerance, signal }), biased)
    })
  })

  describe('its number format and its tokenizer', () => {
    let client: PolicyClient

    before(async () => {
      // The marks of a turn in each other's place.
      const text = await readFile(join(fileURLToPath(newer.uri), 'tokenizer.json'), 'utf8')
      const tokenizer = join(root, 'tokenizer')
      await mkdir(tokenizer)
      const swapped = { '<|im_start|>': '<|im_end|>', '<|im_end|>': '<|im_start|>' } as const
      await writeFile(
        join(tokenizer, 'tokenizer.json'),
        text.replaceAll(/<\|im_(?:start|end)\|>/g, (mark) => swapped[mark as keyof typeof swapped]),
      )
      await copyFile(join(fileURLToPath(newer.uri), 'config.json'), join(tokenizer, 'config.json'))
      await start(newer, { more: ['--dtype', 'bfloat16', '--tokenizer', tokenizer] })
      client = connect('restart')
    })

    test('the canary refuses a bf16 server where fp32 was exported and accepts it where bf16 was', async () => {
      assert.equal(await refusedBy(asked({ client })), 'canary')
      assert.equal(await refusedBy({ ...asked({ client }), tolerance: TOLERANCE.bfloat16 }), null)
    })

    test('the check of special tokens refuses another tokenizer', async () => {
      await assert.rejects(verifyTokenizer({ client, policy: newer, signal }), {
        code: 'Model.CanaryMismatch',
        message: /tokenizer of the policy’s directory/,
      })
    })
  })

  function connect(publish: 'restart' | 'reload'): PolicyClient {
    // An engine that died of a lie is named soon.
    return createPolicyClient({ kind: 'vllm', publish, url: engine?.url ?? '', timeouts: { giveUpAfterMs: 60_000 } })
  }

  function versionOf(step: number): string {
    return `v${String(step).padStart(6, '0')}-00000000`
  }

  function asked({ client }: Pick<AskedServer, 'client'>): AskedServer {
    return { client, policy: newer.version, tolerance: TOLERANCE.float32, canary, window, signal }
  }

  /** In the place of the one before. */
  async function start(
    policy: PolicyRef,
    { publish = 'restart', ...lies }: Partial<Pick<StartVllmInput, 'publish' | 'more' | 'variables'>>,
  ): Promise<void> {
    assert.ok('bin' in found)
    await engine?.kill()
    engine = null
    const log = join(root, 'vllm.log')
    engine = await startVllm({
      bin: found.bin,
      directory: fileURLToPath(policy.uri),
      name: policy.version,
      port,
      publish,
      context: CONTEXT,
      log,
      overrides,
      ...lies,
    })
  }

  function request(changes: Partial<SampleRequest>): SampleRequest {
    return {
      policy: newer.version,
      promptIds: [11, 12, 13],
      maxTokens: 16,
      seed: 1,
      sampling: NEUTRAL_SAMPLING,
      stopTokenIds: [258],
      session: 'run/rft/0001/task/00',
      ...changes,
    }
  }

  /** Directories of weights that a reload reads as the newer policy's: of two, the older ones’ tensors where the name says so. */
  async function writeMixtures(names: readonly ('half' | 'old-head')[]): Promise<void> {
    await runPython(
      'import sys, shutil, pathlib; from safetensors.torch import load_file, save_file\n' +
        'older, newer, root, *names = sys.argv[1:]\n' +
        'old, new = (load_file(f"{at}/model.safetensors") for at in (older, newer))\n' +
        'order = sorted(new)\n' +
        'stay = {"half": order[len(order) // 2 :], "old-head": ["lm_head.weight"]}\n' +
        'for name in names:\n' +
        '    to = pathlib.Path(root) / name\n' +
        '    shutil.copytree(newer, to)\n' +
        '    mixed = {**new, **{one: old[one] for one in stay[name]}}\n' +
        '    save_file(mixed, to / "model.safetensors", metadata={"format": "pt"})',
      fileURLToPath(older.uri),
      fileURLToPath(newer.uri),
      root,
      ...names,
    )
  }
})
