import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { PolicyClient, SampleRequest } from '../../contracts/policy.types.ts'
import { type RunningServer, startPolicyServer, withoutPython, writeTwoPolicies } from '../../../test/support/python.ts'
import { createPolicyClient } from './client.ts'
import { HANG_MS } from '../../../test/support/hang.ts'

/** The client against the real embedded server: the same questions that a vLLM server has to answer. */
describe('embedded policy server', { skip: withoutPython }, () => {
  const signal = AbortSignal.timeout(HANG_MS)
  let policies: Awaited<ReturnType<typeof writeTwoPolicies>>
  let root = ''
  let server: RunningServer
  let client: PolicyClient

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'policy-server-'))
    policies = await writeTwoPolicies(root)
    server = await startPolicyServer({ state: join(root, 'state'), maxVersions: 1 })
    client = createPolicyClient({ kind: 'embedded', url: server.url, timeouts: { giveUpAfterMs: 2_000 } })
  })
  after(async () => {
    await server.stop()
    await rm(root, { recursive: true, force: true })
  })

  const [first, second] = [() => policies[0], () => policies[1]]
  const makeRequest = (policy: string, promptIds: number[]): SampleRequest => ({
    policy,
    promptIds,
    maxTokens: 12,
    seed: 7,
    sampling: NEUTRAL_SAMPLING,
    stopTokenIds: [258],
    session: 'r/s/0001/t/00',
  })

  test('does not serve a policy that is not loaded', async () => {
    await assert.rejects(client.sample(makeRequest(first().version, [1]), signal), { code: 'Model.NotServed' })
  })

  test('encodes text, samples ids, and scores them again with the same log-probabilities', async () => {
    const policy = first().version
    await client.load({ policy: first(), holder: 'train/a', leaseMs: 60_000 }, signal)
    await client.load({ policy: first(), holder: 'train/a', leaseMs: 60_000 }, signal)
    assert.deepEqual(await client.served(signal), [policy])
    const promptIds = await client.tokenize({ policy, text: '<|im_start|>hé' }, signal)
    assert.equal(promptIds.length, 4)
    const sample = await client.sample(makeRequest(policy, promptIds), signal)
    // Log-probabilities may differ in the last fp32 digit (cached prefix); the ids may not.
    assert.deepEqual((await client.sample(makeRequest(policy, promptIds), signal)).ids, sample.ids)
    assert.equal(sample.ids.length, sample.logprobs.length)
    const scores = await client.score({ policy, ids: [...promptIds, ...sample.ids] }, signal)
    const rescored = scores.slice(promptIds.length - 1)
    for (const [index, logprob] of sample.logprobs.entries()) {
      assert.ok(Math.abs(logprob - (rescored[index] ?? Number.NaN)) < 1e-4, `token ${index}`)
    }
  })

  test('reports a context that cannot hold the reply as an overflow', async () => {
    const promptIds = Array.from({ length: 505 }, () => 65)
    await assert.rejects(client.sample(makeRequest(first().version, promptIds), signal), {
      code: 'Model.ContextOverflow',
    })
  })

  test('a second run waits for the only leased place and gets it after the release', async () => {
    const load = () => client.load({ policy: second(), holder: 'train/b', leaseMs: 60_000 }, signal)
    await assert.rejects(load(), { code: 'Model.Busy', message: /train\/a/ })
    await client.release({ holder: 'train/a' })
    await load()
    assert.deepEqual(await client.served(signal), [second().version])
  })

  test('refuses a directory that differs from its reference', async () => {
    const wrong = { ...first(), manifestSha256: '0'.repeat(64) }
    await client.release({ holder: 'train/b' })
    await assert.rejects(client.load({ policy: wrong, holder: 'train/a', leaseMs: 1000 }, signal), {
      code: 'Artifact.Corrupt',
    })
  })
})
