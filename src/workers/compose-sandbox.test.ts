/** The activities of a sandbox host as its worker gets them; only the container's side of a lease is played here. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { inActivity } from '../../test/support/activity-context.ts'
import { EPISODE, sandboxHandle } from '../../test/support/scripted-pipeline.ts'
import { makeTrainingRecipe } from '../../test/support/training-records.ts'
import { createHostDoor, type HostDoor } from '../activities/runtime/host-door.ts'
import { createTaskReader, createRecipeReader } from '../activities/runtime/stored-records.ts'
import { createDirectoryStore } from '../adapters/artifacts/directory-store.ts'
import type { EpisodeProgress } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { episodeId, episodeKeys, runKeys, suiteKeys } from '../contracts/keys.ts'
import { NEUTRAL_SAMPLING } from '../contracts/neutral-sampling.ts'
import type { PolicyClient } from '../contracts/policy.types.ts'
import type { SandboxHost } from '../contracts/sandbox.types.ts'
import { ownSandboxesWorker } from './compose-sandbox.ts'
import { PASS_THROUGH } from './connect.ts'
import { putPart } from '../../test/support/record-examples.ts'

const LEASE_MS = 1_200
/** Rounds without a renewal after which the container ends, as its lease loop counts them. */
const ROUNDS = 3

let root: string
let store: ArtifactStore

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'sandbox-worker-'))
  store = createDirectoryStore({ root })
})
after(() => rm(root, { recursive: true, force: true }))

/** The story: the policy server is away for an hour and the engine is slow, so that every other renewal is lost on the way. */
test('a sandbox survives a policy that samples for many leases while every second renewal is lost', async () => {
  const sentMs: number[] = []
  const enough = Promise.withResolvers<'thought it over' | 'was left alone'>()
  const sandbox = {
    takeOver: async () => undefined,
    renew: async () => {
      sentMs.push(performance.now())
      if (sentMs.length === 6) enough.resolve('thought it over')
      if (sentMs.length % 2 === 1) throw new Error('the engine did not answer')
    },
  } as Partial<SandboxHost> as SandboxHost
  const policy = {
    tokenize: async () => [1],
    sample: async () => {
      throw new Error(await enough.promise)
    },
  } as Partial<PolicyClient> as PolicyClient
  await storeEpisode()
  const worker = ownSandboxesWorker(
    {
      hostQueue: 'sandbox.test',
      door: createHostDoor('test'),
      look: () => Promise.reject(new Error('not asked')),
      shared: { store, sandbox, recipes: createRecipeReader(store), tasks: createTaskReader(store) },
    },
    { leaseMs: LEASE_MS, policyUrl: 'http://127.0.0.1:9', policyApiKey: null },
    { ...PASS_THROUGH, policy: () => policy },
  )
  const { advanceEpisode } = worker.activities
  const over = new AbortController()
  const handle = sandboxHandle({ ...EPISODE, placement: 1 }, 'sandbox.test')
  // Renewals that have stopped come to no number.
  const overdue = setTimeout(() => enough.resolve('was left alone'), 60_000)
  const thinking = inActivity(() => advanceEpisode({ ...EPISODE, sandbox: handle, step: 2, placement: 1 }), over)
  try {
    await assert.rejects(thinking, /thought it over/)
  } finally {
    clearTimeout(overdue)
    over.abort()
    enough.resolve('thought it over')
    await thinking.catch(() => undefined)
  }
  // Timers are late on a busy machine and never early: the shortest gap is how often the worker renews.
  const everyMs = Math.min(...sentMs.slice(1).map((ms, index) => ms - (sentMs[index] ?? 0)))
  assert.equal(endOfLease({ renewals: sentMs.length, everyMs }), null)
})

test('a lease ends when renewals are more than half a lease apart and every second one is lost', () => {
  assert.notEqual(endOfLease({ renewals: 12, everyMs: 1.6 * (LEASE_MS / ROUNDS) }), null)
})

test('a step on a draining host or a stopping worker ends before its next turn without a failure', async () => {
  await storeEpisode()
  const stopping = createHostDoor('x')
  stopping.stop()
  assert.deepEqual(await stepBehind(stopping), { turns: 0, disposition: null })
  const moving = createHostDoor('x')
  moving.obey({ since: '2026-03-04T05:06:07.000Z', moving: true, moveAt: null })
  assert.deepEqual(await stepBehind(moving), { turns: 0, disposition: null, moving: true })
})

test('an episode with an interrupted turn cannot be replayed and continues even on a drained host', async () => {
  const episode = episodeId({ ...EPISODE, index: 8 })
  await storeEpisode(8)
  const turn = { episode, turn: 0 }
  await putPart(store, episodeKeys.action(episode, 0), {
    schema: 'longhaul.action/1',
    ...turn,
    command: 'sleep 1000',
    tokenIds: [4],
  })
  await putPart(store, episodeKeys.observation(episode, 0), {
    schema: 'longhaul.observation/1',
    ...turn,
    text: '',
    execution: { exitCode: null, reason: 'timeout', oomKilled: false, wallMs: 1, outputBytes: 0 },
    state: { cwd: '/testbed', submitted: false },
    observedAtMs: 1,
  })
  const moving = createHostDoor('x')
  moving.obey({ since: '2026-03-04T05:06:07.000Z', moving: true, moveAt: null })
  await assert.rejects(stepBehind(moving, 8), /asked the policy/)
})

/** The next step of the stored episode, on a host that takes no work. */
async function stepBehind(door: HostDoor, index = EPISODE.index): Promise<EpisodeProgress> {
  const policy = {
    tokenize: () => Promise.reject(new Error('asked the policy')),
    sample: () => Promise.reject(new Error('asked the policy')),
  } as Partial<PolicyClient> as PolicyClient
  const sandbox = { renew: () => Promise.resolve() } as Partial<SandboxHost> as SandboxHost
  const worker = ownSandboxesWorker(
    {
      hostQueue: 'sandbox.test',
      door,
      look: () => Promise.reject(new Error('not asked')),
      shared: { store, sandbox, recipes: createRecipeReader(store), tasks: createTaskReader(store) },
    },
    { leaseMs: LEASE_MS, policyUrl: 'http://127.0.0.1:9', policyApiKey: null },
    { ...PASS_THROUGH, policy: () => policy },
  )
  const handle = sandboxHandle({ ...EPISODE, placement: 1 }, 'sandbox.test')
  const { advanceEpisode } = worker.activities
  return inActivity(() => advanceEpisode({ ...EPISODE, index, sandbox: handle, step: 2, placement: 1 }))
}

/** The container's side as the runner counts (`infra/runner/main.c`), on a clock of its own: every second renewal is heard.
 *  @returns when the container ends, null where the last renewal finds it alive */
function endOfLease({ renewals, everyMs }: { renewals: number; everyMs: number }): number | null {
  const heard = Array.from({ length: renewals }, (_, index) => (index + 1) * everyMs).filter(
    (_, index) => index % 2 === 1,
  )
  const roundMs = LEASE_MS / ROUNDS
  let missed = 0
  for (let round = 1; round * roundMs <= renewals * everyMs; round++) {
    const isHeard = heard.some((ms) => ms > (round - 1) * roundMs && ms <= round * roundMs)
    missed = isHeard ? 0 : missed + 1
    if (missed === ROUNDS) return round * roundMs
  }
  return null
}

/** Everything that is read before the policy is asked for turn 0. */
async function storeEpisode(index = EPISODE.index): Promise<void> {
  const episode = episodeId({ ...EPISODE, index })
  const recipe = {
    ...makeTrainingRecipe(),
    policyServer: { kind: 'embedded', url: null, replicas: [], publish: null, leaseS: 60, patienceS: 60, chat: null },
  }
  await putPart(store, runKeys.recipe(EPISODE.run), { schema: 'longhaul.recipe/1', hash: 'test', recipe })
  await putPart(store, suiteKeys.task(EPISODE.suite, EPISODE.taskId), { taskId: EPISODE.taskId, repoDir: '/testbed' })
  await putPart(store, episodeKeys.spec(episode), {
    schema: 'longhaul.episode/1',
    episode,
    ...EPISODE,
    index,
    recipeSeed: 1,
    suiteHash: EPISODE.suite,
    scaffold: 'demo',
    demonstration: false,
    sampling: NEUTRAL_SAMPLING,
    limits: {
      maxTurns: 10,
      contextTokens: 10_000,
      maxTokensPerTurn: 100,
      commandTimeoutMs: 1_000,
      episodeTimeoutMs: 3_600_000,
      turnsPerStep: 8,
    },
    capture: 'all',
  })
  await putPart(store, episodeKeys.start(episode), {
    schema: 'longhaul.episode-start/1',
    episode,
    state: { cwd: '/testbed', submitted: false },
    promptIds: [1, 2, 3],
    trainingPromptIds: null,
    startedAtMs: 0,
  })
}
