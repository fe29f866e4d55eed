/**
 * A whole run of `mini` whose records and weights lie in a bucket: real server of S3, real workers, trainer, policy server and
 * containers. The trainer's host is lost, with all that it has brought and made, between the last upload of a job and the claim. Another
 * host goes on from the bucket. What is left is what the same run leaves on a directory.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { checkLedger } from '../../src/activities/training/check-ledger.ts'
import type { LonghaulConnection } from '../../src/client/index.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { TrainAgentInput } from '../../src/contracts/workflows.types.ts'
import { prepareNamespace } from '../../src/stack/temporal-namespace.ts'
import { type FaultyProxy, startFaultyProxy } from '../support/artifacts/faulty-proxy.ts'
import { findS3Server, openBucket, type S3Server, startS3Server } from '../support/artifacts/s3-server.ts'
import { digestRun, type RunDigest } from '../support/chaos/run-digest.ts'
import { STORY_MS } from '../support/hang.ts'
import { connectToOwnNamespace } from '../support/own-namespace.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { runRecipe } from '../support/run-recipe.ts'
import { recipeOf } from '../support/run-records.ts'

const root = join(import.meta.dirname, '../..')

const found = needsStack === false ? await findS3Server() : { reason: needsStack }
const skip = 'reason' in found ? found.reason : false

/** One job of fine-tuning, then one that goes on from its checkpoint. */
const INPUT: TrainAgentInput = {
  recipe: 'mini',
  overrides: {
    data: { heldOut: { kind: 'synthetic', family: 'one-wrong-line', seed: 1, split: 'eval', count: 2 } },
    evaluate: { tasks: 2 },
    reinforce: {
      stages: [
        {
          name: 'dapo-1',
          context: 640,
          maxTurns: 6,
          penaltyStart: 4,
          problemsPerIteration: 3,
          batch: 6,
          clip: { low: 0.2, high: 0.28 },
          until: { maxIterations: 1 },
        },
      ],
    },
  },
}

describe('a training run on a bucket', { skip }, () => {
  const closers: (() => Promise<unknown>)[] = []
  let world: PipelineWorld
  let server: S3Server
  let proxy: FaultyProxy
  let own: LonghaulConnection
  let places: string
  let store: ArtifactStore
  let said = ''
  let run = ''
  let onBucket: RunDigest
  /** Versions of trained policies, in the order of their first claims. */
  const claims = new Set<string>()
  let claimsAfter = 0

  before(async () => {
    if ('reason' in found) return
    world = await attachWorld()
    closers.push(() => world.close())
    server = await startS3Server(found.program)
    closers.push(() => server.close())
    proxy = await startFaultyProxy(server.url)
    closers.push(() => proxy.close())
    own = await connectToOwnNamespace('weights')
    closers.push(() => own.close())
    await prepareNamespace({ address: own.address, namespace: own.namespace, raiseRetention: false })
    places = await mkdtemp(join(tmpdir(), 'longhaul-places-'))
    closers.push(() => rm(places, { recursive: true, force: true }))
    const place = { directory: join(places, 'reader'), limitBytes: 2 ** 40, isShared: false }
    store = openBucket(server, { place }).store
  })

  after(async () => {
    for (const close of closers.toReversed()) await close()
  })

  const startWorker = (host: string): ChildProcess => {
    const child = spawn(process.execPath, [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'all'], {
      env: {
        ...process.env,
        ...server.environment,
        AWS_ENDPOINT_URL_S3: proxy.url,
        LONGHAUL_NAMESPACE: own.namespace,
        LONGHAUL_ARTIFACTS: `s3://${server.bucket}/lab/one`,
        LONGHAUL_WEIGHTS: join(places, host),
        LONGHAUL_HOST_ID: `weights-${process.pid}`,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
    closers.push(() => stop(child, 'SIGTERM'))
    return child
  }

  test('the run ends although its trainer host is lost between upload and claim of a job', async () => {
    const first = startWorker('one')
    const losing: Promise<unknown>[] = []
    proxy.obey(({ method, path }) => {
      if (method !== 'PUT' || !/\/weights\/v(?!000000)/.test(path)) return null
      claims.add(
        path
          .split('/')
          .at(-1)
          ?.replace(/\.json$/, '') ?? '',
      )
      // The second job's: the first one's checkpoint is in the bucket, and here.
      if (claims.size < 2) return null
      if (losing.length > 0) {
        claimsAfter += 1
        return null
      }
      losing.push(
        stop(first, 'SIGKILL').then(async () => {
          await rm(join(places, 'one'), { recursive: true })
          startWorker('two')
        }),
      )
      return { kind: 'gone' }
    })
    const ended = await runRecipe({ connection: own, input: INPUT, limitMs: STORY_MS / 2, say: console.error })
    assert.equal(losing.length, 1, 'no host was lost')
    await Promise.all(losing)
    assert.equal(ended.outcome.status, 'completed', `${JSON.stringify(ended.outcome)}\n${said.slice(-4_000)}`)
    if (ended.outcome.status !== 'completed') return
    run = ended.outcome.result.run
    onBucket = await digestRun(store, run)
  })

  test('the other host trains the second job again from the checkpoint that it downloaded', async () => {
    assert.ok(claimsAfter > 0)
    const [folder] = await readdir(join(places, 'two'))
    const here = await readdir(join(places, 'two', folder ?? '', 'checkpoints'))
    assert.deepEqual(new Set(here), claims)
  })

  test('its ledger can be derived again from the records in the bucket', async () => {
    const { mismatches, totals } = await checkLedger({ store, recipe: await recipeOf(store, run) }, run)
    assert.deepEqual(mismatches, [])
    assert.equal(totals.episodes, onBucket.episodes.length)
  })

  test('its episodes, ledgers, batches, steps and weights equal those of the same run on a directory', async () => {
    const { connection } = world
    const ended = await runRecipe({ connection, input: INPUT, limitMs: STORY_MS / 2, say: console.error })
    assert.equal(ended.outcome.status, 'completed', JSON.stringify(ended.outcome))
    if (ended.outcome.status !== 'completed') return
    const onDirectory = await digestRun(world.store, ended.outcome.result.run)
    assert.equal(onBucket.jobs.length, 2)
    assert.ok(onBucket.jobs.every(({ weights }) => weights !== null && /safetensors [0-9a-f]{64}/.test(weights)))
    assert.deepEqual(comparable(onBucket), comparable(onDirectory))
  })
})

/**
 * The embedded server samples what asks at the same time together, and the last bits of log-probabilities depend on the company. Ids,
 * gradients and weights do not; what is measured on log-probabilities alone, and the hash of a batch that holds them, do.
 */
function comparable({ episodes, jobs, ...digest }: RunDigest): object {
  const without = (json: string, ...names: string[]): unknown =>
    JSON.parse(json, (name, value: unknown) => (names.includes(name) ? undefined : value))
  return {
    ...digest,
    episodes: episodes.map(({ turns, ...episode }) => ({
      ...episode,
      turns: turns.map((turn) => without(turn, 'logprobs')),
    })),
    jobs: jobs.map(({ batch, steps, ...job }) => ({
      ...job,
      batch: without(batch, 'file'),
      steps: steps?.map((step) => without(step, 'k1', 'k3', 'is_mean', 'ess')),
    })),
  }
}

async function stop(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || !child.kill(signal)) return
  await once(child, 'exit')
}
