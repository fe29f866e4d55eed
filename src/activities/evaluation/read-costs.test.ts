import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeVerdict } from '../../../test/support/evaluation-records.ts'
import { storeExportedRun } from '../../../test/support/exported-run.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { type StoreEpisodeInput, storeEpisode, storeViewedRun } from '../../../test/support/viewed-run.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import type { TrainingJobInput } from '../../contracts/activities.types.ts'
import type { Amount, RunCosts, Spent, StageCosts } from '../../contracts/costs.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import { episodeKeys, gateKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { PriceRecipe } from '../../contracts/recipe.types.ts'
import { recordJob, recordTraining } from '../training/record-training.ts'
import { readRunCosts } from './read-costs.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const root = await mkdtemp(join(tmpdir(), 'read-costs-'))
after(() => rm(root, { recursive: true, force: true }))
const store = createDirectoryStore({ root })
const recipe = makeTrainingRecipe()

const costsOf = (run: string, prices: PriceRecipe | null = null): Promise<RunCosts> =>
  readRunCosts(store, {
    run,
    recipe: { evaluate: { ...recipe.evaluate, prices }, trainer: { ...recipe.trainer, ranksPerNode: 2 } },
  })

function stageOf({ stages }: RunCosts, name: string): StageCosts {
  const found = stages.find(({ stage }) => stage === name)
  assert.ok(found, `no stage ${name} in ${stages.map(({ stage }) => stage).join(', ')}`)
  return found
}

const told = (total: number, of = 1): Amount => ({ total, told: of, unknown: 0 })

/** Of the first placement; the others follow 2.6 s after each other. */
const PLACED_MS = 500

async function storePlaced(input: StoreEpisodeInput, placements = 1): Promise<string> {
  const episode = await storeEpisode(store, input)
  for (let placement = 1; placement <= placements; placement++) {
    await putPart(store, episodeKeys.placement(episode, placement), {
      schema: 'longhaul.placement/1',
      episode,
      placement,
      ownerRun: 'o',
      hostId: 'h',
      image: 'i',
      placedAtMs: PLACED_MS + 2_600 * (placement - 1),
    })
  }
  return episode
}

test('each placement of a sandbox is paid from its start to its last heartbeat or to the next placement', async () => {
  await storeViewedRun(store, 'placed')
  // Turns are sampled at 2, 3, 4 and 5 s and observed half a second later.
  await storePlaced({ run: 'placed', taskId: 'a', turns: 4, verdict: 'resolved' })
  await storePlaced({ run: 'placed', taskId: 'b', turns: 4 }, 2)
  const { spent, lost, lostEpisodes } = stageOf(await costsOf('placed'), 'dapo-1')
  // 5.5 − 0.5; 3 − 0.5 for the first placement, which another one followed at 3.1 s, and 5.5 − 3.1 for that.
  assert.deepEqual(spent.sandboxSeconds, { total: 5 + 2.5 + 2.4, told: 3, unknown: 0 })
  assert.equal(lostEpisodes, 0)
  assert.deepEqual(
    lost.map(({ what, because, count, spent: part }) => [what, because, count, part.sandboxSeconds]),
    [['sandbox', 'placed again', 1, told(2.5)]],
  )
})

test('lost work is paid, counted once and named, and unrecorded amounts are unknown instead of 0', async () => {
  await storeViewedRun(store, 'lost')
  const usage = { promptTokens: 1_000, cachedTokens: null, completionTokens: 50 }
  await storePlaced({ run: 'lost', taskId: 'a', index: 0, turns: 2, verdict: 'resolved', usage })
  await storePlaced({
    run: 'lost',
    taskId: 'b',
    index: 0,
    turns: 1,
    disposition: 'infra',
    verdict: null,
    failure: 'Sandbox.Lost',
    usage,
  })
  // Its replacement.
  await storePlaced({ run: 'lost', taskId: 'b', index: 1, turns: 2, usage: null, sampledTokens: null })
  const costs = await costsOf('lost')
  const { spent, lost, perResolvedTask, resolvedTasks } = stageOf(costs, 'dapo-1')
  assert.deepEqual(spent.promptTokens, { total: 2_000, told: 2, unknown: 1 })
  assert.deepEqual(spent.sampledTokens, { total: 100, told: 2, unknown: 1 })
  assert.deepEqual(spent.trainerSeconds, { total: 0, told: 0, unknown: 0 })
  assert.deepEqual([resolvedTasks, perResolvedTask.promptTokens, perResolvedTask.money], [1, 2_000, null])
  assert.deepEqual(
    lost.map(({ what, because, count, spent: part }) => [what, because, count, part.promptTokens, part.sandboxSeconds]),
    [['episode', 'infra: Sandbox.Lost', 1, told(1_000), told(2)]],
  )
  const nothing: Amount = { total: null, told: 0, unknown: 1 }
  await storeViewedRun(store, 'silent')
  await storePlaced({ run: 'silent', taskId: 'b', turns: 2, usage: null, sampledTokens: null })
  const silent = await costsOf('silent')
  assert.deepEqual([silent.whole.spent.promptTokens, silent.whole.spent.sampledTokens], [nothing, nothing])
})

test('a requeued grading attempt is paid in addition to the one with the verdict', async () => {
  await storeViewedRun(store, 'requeued')
  const episodes = await Promise.all(
    ['a', 'b', 'c'].map((taskId) =>
      storePlaced({ run: 'requeued', taskId, turns: 2, verdict: taskId === 'c' ? 'could-not-grade' : 'unresolved' }),
    ),
  )
  const verdict = async (episode: string, fields: Partial<VerdictRecord>): Promise<void> => {
    const found = makeVerdict({ episode, taskId: 't', verdictReason: null } as never, 'unresolved')
    await rm(store.path(episodeKeys.verdict(episode)))
    await putPart(store, episodeKeys.verdict(episode), { ...found, ...fields })
  }
  const attempt = (episode: string, number: number, failure: string): Promise<unknown> =>
    putPart(store, episodeKeys.gradingAttempt(episode, number), {
      schema: 'longhaul.grading-attempt/1',
      episode,
      attempt: number,
      failure,
    })
  const timedOut = (episode: string, number: number, gradeMs: number): Promise<unknown> =>
    putPart(store, episodeKeys.grading(episode, 'fork-4.0.3', 'timed-out.json'), {
      schema: 'longhaul.grading-time-out/1',
      episode,
      attempt: number,
      gradeMs,
    })
  const [a = '', b = '', c = ''] = episodes
  // a: a host that lost the grader, then a verdict with its audit.
  await attempt(a, 1, 'Sandbox.Lost')
  await verdict(a, { gradeMs: 4_000, audit: { outcome: 'agrees', reasons: [], detail: null, auditMs: 1_000 } })
  // b: over the limit, which is recorded as a time-out and as a failed attempt, then again.
  await timedOut(b, 1, 60_000)
  await attempt(b, 1, 'Grading.Failed')
  await verdict(b, { gradeMs: 61_000, reason: 'tests-timed-out' })
  // c: the last attempt's time-out is its verdict too. What another run graded again is that run's.
  await timedOut(c, 4, 30_000)
  await verdict(c, { gradeMs: 30_000, kind: 'could-not-grade', reason: 'tests-timed-out' })
  await store.put(`episodes/${c}/grading/fork-4.0.3/again/r/p/timed-out.json`, Buffer.from('{}'))
  const { spent, lost } = stageOf(await costsOf('requeued'), 'dapo-1')
  assert.deepEqual(spent.gradingSeconds, { total: 5 + 60 + 61 + 30, told: 4, unknown: 1 })
  assert.deepEqual(
    lost.map(({ what, because, count, spent: part }) => [what, because, count, part.gradingSeconds]),
    [
      ['episode', 'could-not-grade', 1, told(30)],
      ['grading', 'Sandbox.Lost', 1, { total: null, told: 0, unknown: 1 }],
      ['grading', 'tests-timed-out', 1, told(60)],
    ],
  )
})

const POLICY: PolicyRef = {
  version: 'v000000-aaaaaaaa',
  uri: '',
  manifestSha256: 'aa'.repeat(32),
  globalStep: 0,
  checkpointUri: null,
  checkpointSha256: null,
}
const TRAINED = { ...POLICY, version: 'v000002-bbbbbbbb', manifestSha256: 'bb'.repeat(32), globalStep: 2 }

function jobOf(run: string): TrainingJobInput {
  return {
    run,
    stage: 'dapo-1',
    kind: 'dapo',
    iteration: 1,
    slice: 0,
    policy: POLICY,
    batch: { key: 'batch', sha256: 'cc'.repeat(32), bytes: 1 },
  }
}

async function writeAttempt(run: string, fence: number, times: number[], exit: string | null): Promise<string> {
  const job = store.path(runKeys.job(run, 'dapo-1', 1, 0))
  const directory = join(job, 'attempts', String(fence))
  await mkdir(directory, { recursive: true })
  const lines = times.map((t, seq) => JSON.stringify({ t, seq, fence, event: 'heartbeat', phase: 'train' }))
  // A kill tears the line that was being written.
  const torn = exit === null ? '\n{"t":999999999' : '\n'
  if (times.length > 0) await writeFile(join(directory, 'progress.jsonl'), `${lines.join('\n')}${torn}`)
  if (exit !== null)
    await writeFile(join(directory, 'exit.json'), JSON.stringify({ code: 0, class: exit, message: '' }))
  return job
}

/**
 * A trainer is killed 20 s after it began; the next one resumes from its last step and ends after 5 s. The worker dies after it has kept
 * the times and before it answers, so the activity keeps them once more.
 */
test('each second of each process of a killed and resumed trainer counts once, before and after its job is recorded', async () => {
  await storeViewedRun(store, 'killed')
  await writeAttempt('killed', 1, [100_000, 110_000, 120_000], null)
  // Its launch was refused: it never was at work.
  await writeAttempt('killed', 2, [], 'not-launched')
  const running = stageOf(await costsOf('killed'), 'dapo-1')
  assert.deepEqual(running.spent.trainerSeconds, told(2 * 20))
  const jobDirectory = await writeAttempt('killed', 3, [130_000, 135_000], 'ok')
  const resumed = stageOf(await costsOf('killed'), 'dapo-1')
  assert.deepEqual(resumed.spent.trainerSeconds, told(2 * 25, 2))
  const ended = {
    store,
    input: jobOf('killed'),
    job: { key: 'key', jobDirectory, layout: { nodes: 1, ranksPerNode: 2, device: 'cpu' as const } },
    trained: TRAINED,
  }
  for (let time = 0; time < 2; time++) {
    await recordJob(ended)
    await recordTraining({ store, recipe, job: ended.input, policy: TRAINED.version, metrics: [] })
  }
  const { spent, lost } = stageOf(await costsOf('killed'), 'dapo-1')
  assert.deepEqual(spent.trainerSeconds, told(2 * 25, 2))
  assert.deepEqual(
    lost.map(({ what, because, count, spent: part }) => [what, because, count, part.trainerSeconds]),
    [['trainer', 'killed', 1, told(2 * 20)]],
  )
})

test('the seconds of a job of an earlier version or another host are unknown', async () => {
  await storeViewedRun(store, 'untimed')
  await recordTraining({ store, recipe, job: jobOf('untimed'), policy: TRAINED.version, metrics: [] })
  const { whole } = await costsOf('untimed')
  assert.deepEqual(whole.spent.trainerSeconds, { total: null, told: 0, unknown: 1 })
})

test('gate costs include the gradings of this run and exclude those of earlier runs', async () => {
  await storeViewedRun(store, 'gated')
  await putPart(store, gateKeys.task('gated', 'suite', 'a'), {
    schema: 'longhaul.task-gate/1',
    run: 'gated',
    taskId: 'a',
    identity: 'id',
  })
  const grading = (check: string, run: string, gradings: number): Promise<unknown> =>
    putPart(store, gateKeys.grading('a', 'id', check, 1), { schema: 'longhaul.gate/2', run, gradings, gradeMs: 3_000 })
  await grading('gold', 'gated', 2)
  await grading('empty', 'earlier', 1)
  const { spent, lost } = stageOf(await costsOf('gated'), 'gate')
  assert.deepEqual(spent.gradingSeconds, { total: 3, told: 1, unknown: 1 })
  assert.deepEqual(
    lost.map(({ what, count }) => [what, count]),
    [['grading', 1]],
  )
})

test('an exported run without placements, prices and token counts adds up over every stage, also an open one', async () => {
  await storeExportedRun(store, 'exported')
  const costs = await costsOf('exported')
  assert.equal(costs.prices, null)
  assert.deepEqual(
    costs.stages.map(({ stage, episodes, lostEpisodes, openEpisodes }) => [
      stage,
      episodes,
      lostEpisodes,
      openEpisodes,
    ]),
    [
      ['dapo-1', 9, 2, 1],
      ['eval-rl', 3, 1, 0],
    ],
  )
  for (const unit of Object.keys(costs.whole.spent) as (keyof Spent)[]) {
    const sums = costs.stages.map(({ spent }) => spent[unit])
    assert.equal(
      costs.whole.spent[unit].total,
      sums.reduce((sum, { total }) => sum + (total ?? 0), 0),
      unit,
    )
  }
  // The open episode has no last record: its tokens are those of its turns. 4 + (4 + 3 + 2) read, 3 + 3 sampled.
  assert.deepEqual(costs.whole.spent.promptTokens, { total: 13, told: 1, unknown: 11 })
  // Without placements from the first prompt on; the attempt that lost its sandbox before its first turn left nothing else.
  assert.equal(costs.whole.spent.sandboxSeconds.unknown, 1)
})
