/** What a server that is healthy and wrong answers, and which check finds it out: real servers with a fault each. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { after, before, describe, test } from 'node:test'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { PolicyClient, PolicyRef, SampleRequest } from '../../contracts/policy.types.ts'
import { python, pythonEnvironment, withoutPython, writeTwoPolicies } from '../../../test/support/python.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { createWarmServers, type WarmServer } from '../../../test/support/warm-servers.ts'
import { createDirectoryStore } from '../artifacts/directory-store.ts'
import { importBasePolicy } from '../trainer-job/job/policy-directory.ts'
import { createProcessLauncher } from '../trainer-job/launchers/process-launcher.ts'
import { runUntilCommitted } from '../trainer-job/job/run-job.ts'
import { findWindow, readWindow } from '../trainer-job/job/window-job.ts'
import { verifyCanaryRows, verifyWindow } from './canary.ts'
import type { Canary } from './canary-rules.ts'
import { createPolicyClient } from './client.ts'
import { poolOf } from './pool.ts'
import { selfCheck } from './self-check.ts'
import { HANG_MS } from '../../../test/support/hang.ts'

const TOLERANCE = 1e-3

describe('incorrect servers', { skip: withoutPython }, () => {
  const signal = AbortSignal.timeout(HANG_MS)
  let policies: Awaited<ReturnType<typeof writeTwoPolicies>>
  const warm = createWarmServers()
  let root = ''

  let started = 0
  let one: Awaited<ReturnType<typeof start>> | null = null
  const first = () => one as Awaited<ReturnType<typeof start>>

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'wrong-servers-'))
    policies = await writeTwoPolicies(root)
    one = await start()
  })
  after(async () => {
    await warm.close()
    await rm(root, { recursive: true, force: true })
  })

  const [older, newer] = [() => policies[0], () => policies[1]]

  async function start(): Promise<{ url: string; client: PolicyClient; server: WarmServer }> {
    const state = join(root, `state-${started}`)
    started += 1
    const server = await warm.start({ state, maxVersions: 2, faults: true })
    return { url: server.url, client: connect(server.url), server }
  }
  const connect = (url: string): PolicyClient =>
    createPolicyClient({ kind: 'embedded', url, timeouts: { giveUpAfterMs: 1_000 } })
  const load = (client: PolicyClient, policy: PolicyRef) =>
    client.load({ policy, holder: 'train/a', leaseMs: 600_000 }, signal)
  const check = (client: PolicyClient) => selfCheck({ client, policy: older().version, tolerance: TOLERANCE, signal })

  async function fault(url: string, ...faults: string[]): Promise<void> {
    const answer = await fetch(`${url}/v1/faults`, { method: 'POST', body: JSON.stringify({ faults }) })
    assert.equal(answer.status, 200)
  }

  test('accepts a correct server and refuses visible and hidden filters and an ignored temperature', async () => {
    const { client, url } = first()
    await load(client, older())
    const figures = await check(client)
    assert.ok(figures.tokens >= 64 && figures.draws >= 2, JSON.stringify(figures))
    assert.ok(figures.medianDifference < 1e-4)
    for (const [name, message] of [
      ['top-k-20', /a filter, a penalty or another temperature is active/],
      ['top-k-20-raw', /raw ones/],
      ['ignore-temperature', /another temperature/],
    ] as const) {
      await fault(url, name)
      await assert.rejects(check(client), { code: 'Model.Biased', message })
    }
    await fault(url)
  })

  test('the canary refuses old weights under the new name and a half-read policy', async () => {
    const { client, url } = first()
    await load(client, older())
    await load(client, newer())
    const canary = await makeCanary(client)
    const asked = { policy: newer().version, canary, tolerance: TOLERANCE, signal }
    assert.equal((await verifyCanaryRows({ client, ...asked })).kind, 'verified')
    for (const [name, message] of [
      ['stale', /those of the old ones/],
      ['half-load', /those of the (trainer|old ones)/],
    ] as const) {
      await freshly(client, url, name)
      // It says that it serves the new policy, and every answer carries its name.
      assert.deepEqual(await client.served(signal), [older().version, newer().version])
      await assert.rejects(verifyCanaryRows({ client, ...asked }), { code: 'Model.CanaryMismatch', message })
    }
    await freshly(client, url)
    assert.equal((await verifyCanaryRows({ client, ...asked })).kind, 'verified')
  })

  test('distinguishes a server that ignores the rope beyond the trained positions', async () => {
    const { client, url } = first()
    const store = createDirectoryStore({ root: join(root, 'store') })
    const directory = fileURLToPath(older().uri)
    const policy = await importBasePolicy({ store, directory, rope: { type: 'yarn', factor: 4, originalMax: 512 } })
    const path = await makeWindow(store, policy)
    const asked = { client, policy: policy.version, path, tolerance: TOLERANCE, signal }
    await client.release({ holder: 'train/a' })
    await load(client, policy)
    const figures = await verifyWindow(asked)
    assert.ok(figures.medianStep > 10 * TOLERANCE && figures.medianDifference < TOLERANCE, JSON.stringify(figures))
    // It says that it serves the policy, takes rows as long, and its samples are what it scores them with.
    const wrong = await start()
    await fault(wrong.url, 'ignore-rope')
    await load(wrong.client, policy)
    await selfCheck({ client: wrong.client, policy: policy.version, tolerance: TOLERANCE, signal })
    await assert.rejects(verifyWindow({ ...asked, client: wrong.client }), {
      code: 'Model.CanaryMismatch',
      message: /read the rope.*from position 512 on.*longhaul policy-server command/,
    })
    // Another rope under the same name: the same weights stretched by two.
    const half = await importBasePolicy({ store, directory, rope: { type: 'yarn', factor: 2, originalMax: 512 } })
    await wrong.client.release({ holder: 'train/a' })
    await fault(wrong.url)
    await load(wrong.client, { ...half, version: 'v000009-00000001' })
    await assert.rejects(verifyWindow({ ...asked, client: wrong.client, policy: 'v000009-00000001' }), {
      code: 'Model.CanaryMismatch',
    })
    // Without any: its longest row ends where the question begins.
    await wrong.client.release({ holder: 'train/a' })
    await load(wrong.client, older())
    await assert.rejects(verifyWindow({ ...asked, client: wrong.client, policy: older().version }), {
      code: 'Model.CanaryMismatch',
      message: /accept 769 tokens/,
    })
    assert.equal(url, first().url)
  })

  test('one seed gives equal tokens alone and among 63 requests, and other tokens after a reload', async () => {
    const { client } = first()
    await load(client, older())
    const asked = Array.from({ length: 64 }, (_, index) => makeRequest(`s${index}`, 1000 + index))
    const together = await Promise.all(asked.map((request) => client.sample(request, signal)))
    for (const index of [0, 31, 63]) {
      const alone = await client.sample(asked[index] as SampleRequest, signal)
      assert.deepEqual(alone.ids, together[index]?.ids)
      for (const [at, logprob] of alone.logprobs.entries()) {
        assert.ok(Math.abs(logprob - (together[index]?.logprobs[at] ?? Number.NaN)) < 1e-4, `token ${at}`)
      }
    }
    assert.ok(new Set(together.map(({ ids }) => ids.join())).size > 32, 'other seeds must give other tokens')
    const ids = [...(asked[0]?.promptIds ?? []), ...(together[0]?.ids ?? [])]
    const before = await client.score({ policy: older().version, ids }, signal)
    await load(client, newer())
    const afterwards = await client.score({ policy: newer().version, ids }, signal)
    const moved = before.map((logprob, at) => Math.abs(logprob - (afterwards[at] ?? Number.NaN)))
    assert.ok(Math.max(...moved) > 10 * TOLERANCE)
  })

  test('a session stays with one of two servers, new weights go to both, and sessions of a dead one move', async () => {
    const servers = [await start(), first()]
    const pool = poolOf(servers)
    await load(pool, older())
    assert.deepEqual(await pool.served(signal), [older().version])
    const sessions = Array.from({ length: 8 }, (_, index) => `run/rft/0001/task/${index}`)
    const before = await Promise.all(sessions.map((session) => pool.sample(makeRequest(session, 7), signal)))
    // The same seed and prompt: the same reply, whichever server a session has.
    for (const { ids } of before) assert.deepEqual(ids, before[0]?.ids)
    await servers[0]?.server.stop()
    const afterwards = await Promise.all(sessions.map((session) => pool.sample(makeRequest(session, 7), signal)))
    assert.deepEqual(
      afterwards.map(({ ids }) => ids),
      before.map(({ ids }) => ids),
    )
    await assert.rejects(load(pool, newer()), { code: 'Model.Unavailable' })
  })

  /** The newer policy loaded anew over the older one, with a fault or without. */
  async function freshly(client: PolicyClient, url: string, ...names: string[]): Promise<void> {
    await fault(url)
    await client.release({ holder: 'train/a' })
    const filler = { ...older(), version: 'v000009-00000000' }
    // Two places: the older policy is used last, so the filler takes the newer one's, and the newer one the filler's.
    await client.score({ policy: older().version, ids: [1, 2] }, signal)
    await load(client, filler)
    await client.release({ holder: 'train/a' })
    await client.score({ policy: older().version, ids: [1, 2] }, signal)
    await fault(url, ...names)
    await load(client, newer())
    await fault(url)
  }

  function makeRequest(session: string, seed: number): SampleRequest {
    return {
      policy: older().version,
      promptIds: [10, 20, 30, 40],
      maxTokens: 24,
      seed,
      sampling: NEUTRAL_SAMPLING,
      stopTokenIds: [258],
      session,
    }
  }

  /** As publishing has it made: by the trainer, started by a launcher. */
  async function makeWindow(store: ArtifactStore, policy: PolicyRef): Promise<string> {
    const { trainer } = makeTrainingRecipe()
    const found = await findWindow({ store, trainer, policy, threads: 1 })
    assert.ok(found !== null && 'job' in found)
    const launcher = createProcessLauncher({ python: python ?? '', env: pythonEnvironment })
    const made = await runUntilCommitted({ job: found.job, launcher, attempt: 1, signal }, readWindow)
    assert.deepEqual(await findWindow({ store, trainer, policy }), made)
    return made.path
  }

  /** Where both policies differ, as the trainer would choose. */
  async function makeCanary(client: PolicyClient): Promise<Canary> {
    const ids = Array.from({ length: 48 }, (_, index) => (index * 37 + 11) % 250)
    const old = await client.score({ policy: older().version, ids }, signal)
    const next = await client.score({ policy: newer().version, ids }, signal)
    const positions = next.map((newLogprob, at) => ({ index: at + 1, oldLogprob: old[at] ?? Number.NaN, newLogprob }))
    return { rows: [{ ids, positions }] }
  }
})
