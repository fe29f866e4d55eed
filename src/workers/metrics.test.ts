/** The metrics of a worker, as its own exporter shows them: nothing between the counters and the page is replaced. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Runtime } from '@temporalio/worker'
import { createDirectoryStore } from '../adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import type { SandboxHost } from '../contracts/sandbox.types.ts'
import { freePort } from '../../test/support/loopback.ts'
import { PASS_THROUGH } from './connect.ts'
import { metered, metricsOptions } from './metrics.ts'

const root = await mkdtemp(join(tmpdir(), 'longhaul-metrics-'))
let page: () => Promise<string>

before(async () => {
  const address = `127.0.0.1:${await freePort()}`
  Runtime.install({ telemetryOptions: metricsOptions({ LONGHAUL_METRICS_ADDRESS: address }) })
  page = async () => (await fetch(`http://${address}/metrics`, { signal: AbortSignal.timeout(10_000) })).text()
})

after(() => rm(root, { recursive: true, force: true }))

const store = (): ArtifactStore =>
  metered(PASS_THROUGH, Runtime.instance().metricMeter).store(createDirectoryStore({ root }))

/** Value of a line whose labels hold all these; null where there is none. */
async function value(name: string, ...labels: string[]): Promise<number | null> {
  const lines = (await page()).split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
  const found = lines.find((line) => labels.every((label) => line.includes(label)))
  return found === undefined ? null : Number(found.slice(found.lastIndexOf(' ')))
}

const ending = {
  schema: 'longhaul.episode-result/1',
  disposition: 'submitted',
  verdict: 'resolved',
  failure: null,
} as const

test('an episode counts once, also when another worker writes its record again', async () => {
  for (let attempt = 0; attempt < 3; attempt++) {
    await store().claimRecord('e/1', { ...ending, stage: 'eval-base', suspectedHack: true })
  }
  await store().claimRecord('e/2', {
    ...ending,
    stage: 'dapo-1',
    disposition: 'infra',
    verdict: null,
    failure: 'Sandbox.Lost',
  })
  assert.equal(await value('longhaul_episodes_total', 'purpose="evaluation"', 'verdict="resolved"'), 1)
  assert.equal(
    await value('longhaul_episodes_total', 'disposition="infra"', 'failure="Sandbox.Lost"', 'verdict="none"'),
    1,
  )
  assert.equal(await value('longhaul_suspected_hacks_total', 'purpose="evaluation"'), 1)
  // The name of a run or a stage would make a series of each.
  assert.doesNotMatch(await page(), /dapo-1|eval-base/)
})

test('counts turns, tokens, samples, commands and gradings, with durations in seconds', async () => {
  const kept = store()
  await kept.claimRecord('a/0', { schema: 'longhaul.action/1', ids: [1, 2, 3], sampleMs: 2_000 })
  await kept.claimRecord('o/0', { schema: 'longhaul.observation/1', execution: { reason: 'exited', wallMs: 40 } })
  await kept.claimRecord('o/1', { schema: 'longhaul.observation/1', execution: null })
  const verdict = { schema: 'longhaul.verdict/1', profile: 'swebench-5', kind: 'unresolved', gradeMs: 7_000 }
  await kept.claimRecord('v/0', { ...verdict, from: 'container', audit: { outcome: 'void' } })
  await kept.claimRecord('v/1', { ...verdict, from: 'gate' })
  assert.equal(await value('longhaul_sampled_tokens_total'), 3)
  assert.equal(await value('longhaul_sample_seconds_sum'), 2)
  assert.equal(await value('longhaul_turns_total', 'outcome="exited"'), 1)
  assert.equal(await value('longhaul_turns_total', 'outcome="format-error"'), 1)
  assert.equal(await value('longhaul_command_seconds_bucket', 'le="0.05"'), 1)
  assert.equal(await value('longhaul_grading_seconds_count', 'profile="swebench-5"'), 1)
  assert.equal(await value('longhaul_audits_total', 'outcome="void"'), 1)
})

test('shows the last step of training without non-finite figures', async () => {
  const steps = [{ loss: 9 }, { loss: 0.5, grad_norm: Number.NaN, global_step: 12 }]
  await store().putRecord('t/0', { schema: 'longhaul.training/1', stage: 'dapo-1', steps, alarms: [{}, {}] })
  assert.equal(await value('longhaul_training_loss', 'purpose="reinforce"', 'sign="positive"'), 0.5)
  assert.equal(await value('longhaul_training_step'), 12)
  assert.equal(await value('longhaul_training_grad_norm'), null)
  assert.equal(await value('longhaul_training_alarms'), 2)
})

test('shows a negative loss by its sign and sets the other side to zero', async () => {
  const steps = [{ loss: -0.49, global_step: 13 }]
  await store().putRecord('t/1', { schema: 'longhaul.training/1', stage: 'dapo-1', steps, alarms: [] })
  const loss = (sign: string) => value('longhaul_training_loss', 'purpose="reinforce"', `sign="${sign}"`)
  assert.deepEqual([await loss('positive'), await loss('negative')], [0, 0.49])
  assert.equal(await value('longhaul_training_alarms'), 0)
})

test('a figure that the exporter refuses gives a warning and keeps the record', async () => {
  const warned = once(process, 'warning') as Promise<[Error]>
  const record = { schema: 'longhaul.action/1', sampleMs: -1, ids: [] }
  assert.equal((await store().claimRecord('a/1', record)).won, true)
  const [warning] = await warned
  assert.deepEqual([warning.name, /non-negative/.test(warning.message)], ['LonghaulMetrics', true])
  await store().putRecord('t/2', { schema: 'longhaul.training/1', stage: 'dapo-1', steps: [{ ess: -1 }], alarms: [] })
})

test('counts a sandbox that does not open by its failure, and a cancelled one not at all', async () => {
  const refusing = {
    open: () => Promise.reject(new LonghaulError({ code: 'Sandbox.EngineUnavailable', message: 'x' })),
  }
  const host = metered(PASS_THROUGH, Runtime.instance().metricMeter).sandbox(refusing as unknown as SandboxHost)
  const input = { role: 'agent' } as never
  await assert.rejects(host.open(input, new AbortController().signal))
  await assert.rejects(host.open(input, AbortSignal.abort()))
  assert.equal(await value('longhaul_sandbox_failures_total', 'role="agent"', 'code="Sandbox.EngineUnavailable"'), 1)
})

test('dashboards and alerts query only existing metrics', async () => {
  const shown = await page()
  const directory = join(import.meta.dirname, '../../infra/dashboards')
  const texts = readdirSync(directory).map((name) => readFileSync(join(directory, name), 'utf8'))
  const asked = new Set(texts.flatMap((text) => text.match(/\blonghaul_[a-z_]+/g) ?? []))
  assert.ok(asked.size >= 8, `${asked.size} metrics are asked for: the search is broken`)
  // This one is a histogram of openings that succeed; none did here. The gauges without a value were left out on purpose.
  const unseen = [
    'longhaul_sandbox_open_seconds_bucket',
    'longhaul_training_grad_norm',
    'longhaul_training_entropy',
    'longhaul_training_sampler_kl',
    'longhaul_training_effective_samples',
  ]
  assert.deepEqual(
    [...asked].filter((name) => !shown.includes(name) && !unseen.includes(name)),
    [],
  )
})

test('refuses two addresses and an invalid address', () => {
  const refused = (env: NodeJS.ProcessEnv): string => {
    try {
      metricsOptions(env)
    } catch (error) {
      assert.ok(isLonghaulError(error) && error.code === 'Config.Invalid')
      return error.message
    }
    throw new assert.AssertionError({ message: 'Expected a refusal' })
  }
  assert.match(refused({ LONGHAUL_METRICS_ADDRESS: '9464' }), /IP:PORT, got "9464"/)
  assert.match(refused({ LONGHAUL_METRICS_OTLP: 'collector:4317' }), /a URL/)
  assert.match(refused({ LONGHAUL_METRICS_ADDRESS: '127.0.0.1:1', LONGHAUL_METRICS_OTLP: 'http://c' }), /got both/)
  assert.deepEqual(metricsOptions({}), {})
})
