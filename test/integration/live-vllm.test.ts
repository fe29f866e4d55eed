/**
 * A running vLLM, started by the command that Longhaul prints, against the adapter, the canary and the self-check. Its numbers are
 * held against those of the embedded server, which the trainer's own forward pass computes. The policies are tiny: what is proven is
 * the way to the engine and what it says of its weights, not a model of real size.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Canary } from '../../src/adapters/policy-server/canary-rules.ts'
import { verifyCanaryRows } from '../../src/adapters/policy-server/canary.ts'
import { createPolicyClient } from '../../src/adapters/policy-server/client.ts'
import { selfCheck } from '../../src/adapters/policy-server/self-check.ts'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import type { PolicyClient, PolicyRef, SampleRequest, SampleResult } from '../../src/contracts/policy.types.ts'
import { HANG_MS } from '../support/hang.ts'
import { askUntilAtWork, assertGivenUp, type LiveEngine } from '../support/live-engine/engine-process.ts'
import { countRunning, findVllm, startVllm } from '../support/live-engine/vllm.ts'
import { freePort } from '../support/loopback.ts'
import { type RunningServer, runPython, startPolicyServer, withoutPython } from '../support/python.ts'

const found = withoutPython === false ? await findVllm() : { skip: withoutPython }
const CONTEXT = 512
/** fp32 on both sides: what is left is the order of additions. */
const TOLERANCE = 1e-3

describe('a running vLLM', { skip: 'skip' in found ? found.skip : false }, () => {
  const signal = AbortSignal.timeout(3 * HANG_MS)
  let root: string
  let port: number
  let untied: [older: PolicyRef, newer: PolicyRef]
  let tied: PolicyRef
  let embedded: RunningServer
  let trainer: PolicyClient
  let engine: LiveEngine | null = null

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'longhaul-vllm-'))
    port = await freePort()
    const [older, newer, last] = await makePolicies(['qwen2', 'qwen2', 'qwen3'])
    assert.ok(older !== undefined && newer !== undefined && last !== undefined)
    untied = [older, newer]
    tied = last
    embedded = await startPolicyServer({ state: join(root, 'state'), maxVersions: 3 })
    trainer = createPolicyClient({ kind: 'embedded', url: embedded.url })
    for (const policy of untied) await trainer.load({ policy, holder: 'test', leaseMs: 3_600_000 }, signal)
  })

  after(async () => {
    await engine?.kill()
    await embedded?.stop()
    await rm(root, { recursive: true, force: true })
  })

  describe('restarted for each policy', () => {
    let client: PolicyClient
    let first: PolicyRef
    let second: PolicyRef

    before(async () => {
      ;[first, second] = untied
      engine = await start(first, 'restart')
      client = createPolicyClient({ kind: 'vllm', publish: 'restart', url: engine.url })
    })
    after(async () => {
      await engine?.kill()
      engine = null
    })

    test('it receives and returns token ids, and its log-probabilities equal the trainer’s', async () => {
      assert.deepEqual(await client.served(signal), [first.version])
      await client.load({ policy: first, holder: 'test', leaseMs: 60_000 }, signal)
      const text = 'def repair(path):\n    return '
      const promptIds = await client.tokenize({ policy: first.version, text }, signal)
      assert.deepEqual(promptIds, await trainer.tokenize({ policy: first.version, text }, signal))
      const sample = await client.sample(request(first, promptIds, 1), signal)
      assert.equal(sample.policy, first.version)
      await assertTold(sample, promptIds, { scorer: trainer, policy: first })
      await assertTold(sample, promptIds, { scorer: client, policy: first })
      const other = await client.sample(request(first, promptIds, 2), signal)
      assert.notDeepEqual(other.ids, sample.ids)
    })

    test('the self-check passes', async () => {
      const figures = await selfCheck({ client, policy: first.version, tolerance: TOLERANCE, signal })
      assert.ok(figures.tokens >= 64, String(figures.tokens))
    })

    test('loading and sampling report a policy that the server was not started with', async () => {
      await assert.rejects(client.load({ policy: second, holder: 'test', leaseMs: 60_000 }, signal), {
        code: 'Model.NotServed',
      })
      await assert.rejects(client.sample(request(second, [1, 2, 3], 1), signal), { code: 'Model.NotServed' })
    })

    test('each of sixty-four concurrent requests has the log-probabilities of its own tokens', async () => {
      const prompts = Array.from({ length: 64 }, (_, at) => [40 + at, 7, 100 + at, 9])
      const samples = await Promise.all(
        prompts.map((promptIds, at) => client.sample({ ...request(first, promptIds, at), session: `s/${at}` }, signal)),
      )
      for (const [at, sample] of samples.entries()) {
        await assertTold(sample, prompts[at] ?? [], { scorer: trainer, policy: first })
      }
    })

    test('a cancelled request ends in the engine too, with the reason of its signal', async () => {
      await assertGivenUp({ ask: (until) => manyLong(first, client, until), running })
    })
  })

  describe('reloaded in place', () => {
    let client: PolicyClient
    let first: PolicyRef
    let second: PolicyRef
    let canary: Canary

    before(async () => {
      ;[first, second] = untied
      engine = await start(first, 'reload')
      client = createPolicyClient({ kind: 'vllm', publish: 'reload', url: engine.url })
      canary = await makeCanary(first, second)
    })

    test('it serves its first policy and refuses another one until it is loaded', async () => {
      assert.deepEqual(await client.served(signal), [first.version])
      const promptIds = [11, 12, 13]
      await assertTold(await client.sample(request(first, promptIds, 1), signal), promptIds, {
        scorer: trainer,
        policy: first,
      })
      await assert.rejects(client.sample(request(second, promptIds, 1), signal), { code: 'Model.NotServed' })
    })

    test('the canary detects old weights under a new label', async () => {
      await relabel(second.version)
      await assert.rejects(verifyCanaryRows({ client, policy: second.version, canary, tolerance: TOLERANCE, signal }), {
        code: 'Model.CanaryMismatch',
        message: /those of the old ones/,
      })
      await relabel(first.version)
    })

    test('a policy with tied embeddings is refused before the engine changes', async () => {
      await assert.rejects(client.load({ policy: tied, holder: 'test', leaseMs: 60_000 }, signal), {
        code: 'Config.Invalid',
        message: /publish: restart/,
      })
      assert.deepEqual(await client.served(signal), [first.version])
    })

    test('after a reload version, canary, self-check and log-probabilities are those of the new policy', async () => {
      await client.load({ policy: second, holder: 'test', leaseMs: 60_000 }, signal)
      assert.deepEqual(await client.served(signal), [second.version])
      const verdict = await verifyCanaryRows({ client, policy: second.version, canary, tolerance: TOLERANCE, signal })
      assert.equal(verdict.kind, 'verified')
      await selfCheck({ client, policy: second.version, tolerance: TOLERANCE, signal })
      const promptIds = [21, 22, 23]
      await assertTold(await client.sample(request(second, promptIds, 1), signal), promptIds, {
        scorer: trainer,
        policy: second,
      })
      await assert.rejects(client.sample(request(first, promptIds, 1), signal), { code: 'Model.NotServed' })
    })

    test('the restarted engine finishes a sample with the requested weights after it was killed', async () => {
      const asked = await askUntilAtWork({ ask: () => manyLong(second, client, signal), running })
      await engine?.kill()
      // Its client goes on trying: the answers are of the engine that was started after it, on the policy that the requests name.
      engine = await start(second, 'reload')
      for (const [at, sample] of (await Promise.all(asked)).entries()) {
        assert.equal(sample.policy, second.version)
        await assertTold(sample, [30, at], { scorer: trainer, policy: second })
      }
    })
  })

  async function start(policy: PolicyRef, publish: 'restart' | 'reload'): Promise<LiveEngine> {
    assert.ok('bin' in found)
    const { uri, version: name } = policy
    return startVllm({
      bin: found.bin,
      directory: fileURLToPath(uri),
      name,
      port,
      publish,
      context: CONTEXT,
      log: join(root, 'vllm.log'),
    })
  }

  /** qwen2: an output head of its own; qwen3: tied embeddings. Heads of 32, the smallest that vLLM attends with on a CPU. */
  async function makePolicies(families: readonly ('qwen2' | 'qwen3')[]): Promise<PolicyRef[]> {
    const directory = join(root, 'policy-')
    // One interpreter for all: importing torch is most of the work.
    const hashes = await runPython(
      'import sys, pathlib; from tiny_policy import write_tiny_policy\n' +
        'for seed, family in enumerate(sys.argv[2:]):\n' +
        '    print(write_tiny_policy(pathlib.Path(f"{sys.argv[1]}{seed}"), family=family, seed=seed, hidden=128))',
      directory,
      ...families,
    )
    return hashes.split('\n').map((manifestSha256, seed) => ({
      version: `v00000${seed}-${manifestSha256.slice(0, 8)}`,
      uri: pathToFileURL(`${directory}${seed}`).href,
      manifestSha256,
      globalStep: seed,
      checkpointUri: null,
      checkpointSha256: null,
    }))
  }

  function request(policy: PolicyRef, promptIds: number[], seed: number): SampleRequest {
    return {
      policy: policy.version,
      promptIds,
      maxTokens: 24,
      seed,
      sampling: NEUTRAL_SAMPLING,
      stopTokenIds: [258],
      session: 'run/rft/0001/task/00',
    }
  }

  /** Work for some seconds: one alone may end with its first token. */
  function manyLong({ version }: PolicyRef, client: PolicyClient, until: AbortSignal): Promise<SampleResult>[] {
    return Array.from({ length: 32 }, (_, at) => {
      const asked = client.sample(
        {
          policy: version,
          promptIds: [30, at],
          maxTokens: 400,
          seed: at,
          sampling: NEUTRAL_SAMPLING,
          stopTokenIds: [],
          session: `long/${at}`,
        },
        until,
      )
      asked.catch(() => undefined)
      return asked
    })
  }

  /** What was said of each sampled token is what the scorer computes for it. */
  async function assertTold(
    { ids, logprobs }: SampleResult,
    promptIds: number[],
    { scorer, policy }: { scorer: PolicyClient; policy: PolicyRef },
  ): Promise<void> {
    assert.ok(ids.length > 0)
    assert.equal(ids.length, logprobs.length)
    const scores = await scorer.score({ policy: policy.version, ids: [...promptIds, ...ids] }, signal)
    for (const [at, told] of logprobs.entries()) {
      const scored = scores[promptIds.length - 1 + at] ?? Number.NaN
      assert.ok(Math.abs(told - scored) < TOLERANCE, `token ${at}: told ${told}, scored ${scored}`)
    }
  }

  /** Log-probabilities of both policies by the trainer's forward pass, as an export writes them. */
  async function makeCanary(older: PolicyRef, newer: PolicyRef): Promise<Canary> {
    const rows: Canary['rows'] = []
    for (let row = 0; row < 4; row++) {
      const ids = Array.from({ length: 32 }, (_, at) => (row * 61 + at * 37) % 250)
      const [before, now] = await Promise.all(
        [older, newer].map(({ version }) => trainer.score({ policy: version, ids }, signal)),
      )
      const positions = ids.slice(1).map((_, at) => ({
        index: at + 1,
        oldLogprob: before?.[at] ?? Number.NaN,
        newLogprob: now?.[at] ?? Number.NaN,
      }))
      rows.push({ ids, positions })
    }
    return { rows }
  }

  /** Sets the label alone, as an engine whose reload failed half-way. */
  async function relabel(version: string): Promise<void> {
    const answer = await fetch(`${engine?.url}/update_weight_version`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ new_version: version }),
    })
    assert.equal(answer.status, 200, await answer.text())
  }

  async function running(): Promise<number> {
    return engine === null ? Number.NaN : countRunning(engine)
  }
})
