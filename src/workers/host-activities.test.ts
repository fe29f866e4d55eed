/** What a turn asks of the store: an episode of the paper's length on one host, with a scripted sandbox and a scripted policy. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { inActivity } from '../../test/support/activity-context.ts'
import { storeRollout } from '../../test/support/scale/scale-records.ts'
import { createScriptedPolicy } from '../../test/support/scale/scripted-policy.ts'
import { createScriptedSandboxes } from '../../test/support/scale/scripted-sandboxes.ts'
import { SHA } from '../../test/support/scripted-pipeline.ts'
import { claimPlacement } from '../activities/episode/claim-placement.ts'
import { openSandbox } from '../activities/episode/open-sandbox.ts'
import { createHostDoor } from '../activities/runtime/host-door.ts'
import { createRecipeReader, createTaskReader } from '../activities/runtime/stored-records.ts'
import { createDirectoryStore } from '../adapters/artifacts/directory-store.ts'
import { wrapStore } from '../adapters/artifacts/store-rules.ts'
import type { HostActivities } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { ActionRecord } from '../contracts/episodes.types.ts'
import type { PolicyClient } from '../contracts/policy.types.ts'
import { episodeId, episodeKeys } from '../contracts/keys.ts'
import type { SandboxHost } from '../contracts/sandbox.types.ts'
import type { EpisodeInput } from '../contracts/workflows.types.ts'
import { ownSandboxesWorker } from './compose-sandbox.ts'
import { PASS_THROUGH } from './connect.ts'

const TURNS = 60
const TURNS_A_STEP = 8
const STEPS = Math.ceil(TURNS / TURNS_A_STEP)
/** The hash of the files, each five turns but not after the last one, and before `submit`. */
const TREES = TURNS / 5

let root: string
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'host-activities-'))
})
after(() => rm(root, { recursive: true, force: true }))

test('steps on one host write the two records of each turn once and never read earlier turns', async () => {
  const { activities, calls, episode, at } = await openEpisode('steps')
  for (let step = 1; step <= STEPS; step++) {
    const { turns } = await inActivity(() => activities.advanceEpisode(at(step)))
    assert.equal(turns, Math.min(step * TURNS_A_STEP, TURNS))
  }
  await inActivity(() => activities.captureSubmission(at(STEPS)))
  const turnsWritten = countOf(calls, 'writing', /\.(action|observation)\.json$/)
  assert.equal(turnsWritten, 2 * TURNS)
  assert.equal(countOf(calls, 'writing', /\.tree\.json$/), TREES)
  const others = calls.filter(({ doing, key }) => doing === 'writing' && !/\/\d{4}\.\w+\.json$/.test(key))
  const { start, disposition, patch, capture } = episodeKeys
  assert.deepEqual(
    others.map(({ key }) => key),
    [start, disposition, patch, capture].map((keyOf) => keyOf(episode)),
  )
  // Before each sample and at each begin of a step and of the capture a look at whether another attempt has recorded the next turn.
  assert.equal(countOf(calls, 'reading', /\.action\.json$/), TURNS + STEPS + 1)
  assert.equal(countOf(calls, 'reading', /\.observation\.json$/), 0)
  assert.equal(countOf(calls, 'reading', /\.tree\.json$/), TREES)
  assert.equal(countOf(calls, 'reading', /\/(spec|start)\.json$/), 2)
})

/** The story: a step has timed out on the server while its worker was suspended. The next attempt must not go by memory alone. */
test('an attempt after a failed one reads all records again and so finds a torn one', async () => {
  const { activities, calls, store, episode, at } = await openEpisode('again')
  await inActivity(() => activities.advanceEpisode(at(1)))
  calls.length = 0
  const path = store.path(episodeKeys.observation(episode, 3))
  await writeFile(path, 'torn')
  await assert.rejects(
    inActivity(() => activities.advanceEpisode(at(2)), { attempt: 2 }),
    { type: 'Artifact.Corrupt' },
  )
  assert.equal(countOf(calls, 'reading', /\.action\.json$/), 4)
})

test('a step continues after the turns that another attempt has added meanwhile', async () => {
  const first = await openEpisode('meanwhile')
  await inActivity(() => first.activities.advanceEpisode(first.at(1)))
  const second = hostOf(first.store, first.host)
  await inActivity(() => second.activities.advanceEpisode(first.at(2)))
  const { turns } = await inActivity(() => first.activities.advanceEpisode(first.at(3)))
  assert.equal(turns, 3 * TURNS_A_STEP)
  const played = first.calls.filter(({ doing, key }) => doing === 'writing' && key.endsWith('.action.json'))
  assert.equal(played.length, 2 * TURNS_A_STEP)
})

/** The story: Temporal's database was restored from an older copy, and the server hands out a step that this worker is playing. */
test('a step that is handed out twice is played once', async () => {
  const { activities, calls, at } = await openEpisode('twice')
  const both = await Promise.all([1, 2].map(() => inActivity(() => activities.advanceEpisode(at(1)))))
  assert.deepEqual(
    both.map(({ turns }) => turns),
    [TURNS_A_STEP, TURNS_A_STEP],
  )
  assert.equal(countOf(calls, 'writing', /\.action\.json$/), TURNS_A_STEP)
})

test('an execution samples no turn after another execution has placed the episode anew', async () => {
  const { activities, calls, store, episode, at } = await openEpisode('placed')
  await inActivity(() => activities.advanceEpisode(at(1)))
  await claimPlacement(store, { episode, requested: 1, ownerRun: 'another', hostId: 'h', image: 'i' })
  await assert.rejects(
    inActivity(() => activities.advanceEpisode(at(2))),
    { type: 'Sandbox.Foreign' },
  )
  assert.equal(countOf(calls, 'writing', /\.action\.json$/), TURNS_A_STEP)
})

test('a late claim of an earlier request by the same execution stops nothing', async () => {
  const { activities, store, episode, at } = await openEpisode('late-claim')
  await claimPlacement(store, { episode, requested: 2, ownerRun: OWNER.ownerRun, hostId: 'h', image: 'i' })
  const { turns } = await inActivity(() => activities.advanceEpisode(at(1)))
  assert.equal(turns, TURNS_A_STEP)
})

test('a turn took as long as the answered request, however long policy server and store were unavailable', async () => {
  const { store, host, episode, at } = await openEpisode('took')
  const policy = createScriptedPolicy({ turns: TURNS, thinkMs: 0 })
  const slow: PolicyClient = {
    ...policy,
    sample: async (...asked) => ({ ...(await policy.sample(...asked)), tookMs: 7_000_000 }),
  }
  const { activities } = hostOf(store, host, { policy: slow })
  await inActivity(() => activities.advanceEpisode(at(1)))
  assert.equal((await store.readRecord<ActionRecord>(episodeKeys.action(episode, 0)))?.sampleMs, 7_000_000)
})

/** The story: the artifact store is unavailable for longer than a lease, and each episode on the host loses its sandbox. */
test('a sandbox keeps its lease while a step waits for the store', async () => {
  const { store, host, at } = await openEpisode('lease')
  const renewals = Promise.withResolvers<void>()
  let renewed = 0
  const counting: SandboxHost = {
    ...host,
    async renew(...asked) {
      await host.renew(...asked)
      renewed += 1
      if (renewed === 3) renewals.resolve()
    },
  }
  const waiting = wrapStore(store, async ({ doing, key }, work) => {
    if (doing === 'writing' && key.endsWith('/0000.observation.json')) await renewals.promise
    return work()
  })
  const { activities } = hostOf(waiting, counting, { leaseMs: 30 })
  const { turns } = await inActivity(() => activities.advanceEpisode(at(1)))
  assert.equal(turns, TURNS_A_STEP)
})

interface Call {
  doing: string
  key: string
}

function countOf(calls: readonly Call[], doing: string, key: RegExp): number {
  return calls.filter((call) => call.doing === doing && key.test(call.key)).length
}

async function openEpisode(run: string) {
  const folder = await mkdtemp(join(root, `${run}-`))
  const store = createDirectoryStore({ root: join(folder, 'artifacts') })
  const { stage, policy } = await storeRollout(store, {
    run,
    tasks: 1,
    groupSize: 10,
    turns: TURNS,
    turnsPerStep: TURNS_A_STEP,
  })
  const taskId = 'synthetic__scale-000000'
  const input: EpisodeInput = { run, stage, iteration: 1, policy: policy.version, suite: SHA, taskId, index: 0 }
  const host = createScriptedSandboxes({ folder: join(folder, 'sandboxes'), hostQueue: 'sandbox.test' })
  const { activities, calls } = hostOf(store, host)
  const sandbox = await openSandbox(
    {
      store,
      sandbox: host,
      recipe: await createRecipeReader(store)(run),
      tasks: createTaskReader(store),
      ensureImage: async () => undefined,
      leaseMs: 60_000,
      hostId: 'h',
    },
    { ...input, placement: 1, owner: OWNER.owner, ownerRun: OWNER.ownerRun },
    new AbortController().signal,
  )
  calls.length = 0
  const at = (step: number) => ({ ...input, sandbox, step, placement: 1 })
  return { activities, calls, store, host, episode: episodeId(input), at }
}

/** Of an activity in the SDK's test environment. */
const OWNER = { owner: 'test', ownerRun: '00000000-0000-0000-0000-000000000000' }

/** A worker of its own, with nothing in memory. */
function hostOf(
  store: ArtifactStore,
  sandbox: SandboxHost,
  {
    policy = createScriptedPolicy({ turns: TURNS, thinkMs: 0 }),
    leaseMs = 60_000,
  }: { policy?: PolicyClient; leaseMs?: number } = {},
) {
  const calls: Call[] = []
  const counted = wrapStore(store, (call, work) => {
    calls.push(call)
    return work()
  })
  const worker = ownSandboxesWorker(
    {
      hostQueue: 'sandbox.test',
      door: createHostDoor('test'),
      look: () => Promise.reject(new Error('not asked')),
      shared: { store: counted, sandbox, recipes: createRecipeReader(store), tasks: createTaskReader(store) },
    },
    { leaseMs, policyUrl: 'http://127.0.0.1:9', policyApiKey: null },
    { ...PASS_THROUGH, policy: () => policy },
  )
  const activities: HostActivities = worker.activities
  return { activities, calls }
}
