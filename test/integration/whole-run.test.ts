/** One whole run of the recipe `mini` on real parts, through the program interface; then what it left is looked at from all sides. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkLedger } from '../../src/activities/training/check-ledger.ts'
import { newestPromotion } from '../../src/activities/training/policies.ts'
import { readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import type { EpisodeRecord, VerdictRecord } from '../../src/contracts/episodes.types.ts'
import { episodeKeys, runKeys } from '../../src/contracts/keys.ts'
import type { TrainAgentResult } from '../../src/contracts/workflows.types.ts'
import type { JsonReport } from '../../src/report/json-report.ts'
import { createPages, type Pages } from '../../src/viewer/pages.ts'
import type {
  EpisodePage,
  EpisodesPage,
  ReportPage,
  RunPage,
  TokensPage,
  TurnsPage,
} from '../../src/viewer/pages.types.ts'
import { partOf } from '../../src/viewer/shared/turn-parts.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { fetchRunHistories, type RunHistory } from '../support/run-histories.ts'
import { runRecipe } from '../support/run-recipe.ts'
import { batchesOf, episodesOf, leftBehind, recipeOf, turnsOf } from '../support/run-records.ts'
import { HANG_MS } from '../support/hang.ts'

/** `mini`: 8 held-out tasks three times, 4 × 4 for fine-tuning, two iterations of 3 × 4. */
const EPISODES = 3 * 8 + 4 * 4 + 2 * 3 * 4

let world: PipelineWorld
let workflowId: string
let result: TrainAgentResult
let episodes: EpisodeRecord[]
let histories: RunHistory[]

before(async () => {
  if (needsStack !== false) return
  world = await attachWorld()
  const { connection, store } = world
  const ended = await runRecipe({ connection, input: { recipe: 'mini' }, limitMs: HANG_MS, say: console.error })
  assert.equal(ended.outcome.status, 'completed', JSON.stringify(ended.outcome))
  if (ended.outcome.status !== 'completed') return
  workflowId = ended.workflowId
  result = ended.outcome.result
  episodes = await episodesOf(store, result.run)
  histories = await fetchRunHistories(connection.client, workflowId)
})

after(() => world?.close())

async function jsonReport(): Promise<JsonReport> {
  const bytes = await world.store.read(runKeys.report(result.run, 'report.json'))
  assert.ok(bytes, 'the run left no report.json')
  return JSON.parse(new TextDecoder().decode(bytes)) as JsonReport
}

test('the run ends with a JSON report of every stage with policy, pass@1, SEM, n and k', {
  skip: needsStack,
}, async () => {
  const report = await jsonReport()
  assert.equal(report.run, result.run)
  assert.deepEqual(
    report.stages.map(({ name, tasks, attempts }) => [name, tasks, attempts]),
    ['base', 'rft', 'rl'].map((name) => [name, 8, 1]),
  )
  for (const { policy, passAt1, sem } of report.stages) {
    assert.match(policy, /^v\d{6}-[0-9a-f]{8,}$/)
    assert.ok(passAt1 >= 0 && passAt1 <= 1, String(passAt1))
    assert.ok(sem >= 0 && sem < 1, String(sem))
  }
  assert.deepEqual(
    result.stages.map(({ name, policy, passAt1 }) => [name, policy, passAt1]),
    report.stages.map(({ name, policy, passAt1 }) => [name, policy, passAt1]),
  )
  assert.equal(typeof report.ledger.trained, 'number')
  for (const phase of ['gate', 'evaluate base', 'rft', 'dapo-1', 'evaluate rl']) {
    assert.ok((report.durations[phase] ?? 0) > 0, `no duration of ${phase}`)
  }
})

test('the report states the cost of the run and the inputs of every score without an unknown hash', {
  skip: needsStack,
}, async (t) => {
  const { costs, lineage, recipe } = await jsonReport()
  const { spent, episodes: paid, openEpisodes } = costs.whole
  t.diagnostic(JSON.stringify(spent))
  assert.deepEqual([paid, openEpisodes], [EPISODES, 0])
  for (const unit of ['trainerSeconds', 'sandboxSeconds', 'gradingSeconds', 'promptTokens', 'sampledTokens'] as const) {
    assert.ok((spent[unit].total ?? 0) > 0, `${unit}: ${JSON.stringify(spent[unit])}`)
  }
  // A sandbox or a grading that a loaded machine lost may be unknown; no job and no count of tokens is.
  const unknown = [spent.trainerSeconds, spent.promptTokens, spent.sampledTokens].map((amount) => amount.unknown)
  assert.deepEqual(unknown, [0, 0, 0])
  const sha256 = /^[0-9a-f]{64}$/
  assert.equal(lineage.recipeSha256, recipe.hash)
  for (const hash of [recipe.hash, ...lineage.code.map(({ filesSha256 }) => filesSha256)]) assert.match(hash, sha256)
  assert.equal(lineage.code.length, 1)
  const [base, ...trained] = lineage.policies
  assert.equal(base?.parent, null)
  for (const { version, manifestSha256, parent, by } of trained) {
    assert.ok(parent !== null && by?.run === result.run, `${version} has no parent`)
    assert.match(manifestSha256 ?? '', sha256, version)
  }
  assert.deepEqual(
    lineage.policies.filter(({ promotion }) => promotion !== null).map(({ version }) => version),
    [result.policy],
  )
  for (const { name, policies, suite, dataset, revision, images, grading } of lineage.evaluations) {
    assert.equal(policies[0]?.version, base?.version, name)
    assert.match(suite, sha256, name)
    assert.ok(dataset !== null && revision !== null && images.count > 0 && images.unknown === 0, name)
    assert.ok(
      grading.every((profile) => / r\d+$/.test(profile)),
      `${name}: ${grading.join(', ')}`,
    )
  }
})

test('the HTML report shows the curve and contains nothing executable', { skip: needsStack }, async () => {
  const html = new TextDecoder().decode(await world.store.get(result.report))
  assert.match(html, /<svg/)
  assert.match(html, new RegExp(result.run))
  assert.doesNotMatch(html, /<script|javascript:|\son[a-z]+\s*=|<iframe|<object|<embed/i)
})

test('the ledger counts every episode once and can be derived again from the records', {
  skip: needsStack,
}, async () => {
  const { store } = world
  const check = await checkLedger({ store, recipe: await recipeOf(store, result.run) }, result.run)
  assert.deepEqual(check.mismatches, [])
  assert.equal(check.totals.episodes, episodes.length)
  assert.equal(episodes.length, EPISODES)
  assert.deepEqual((await jsonReport()).ledger, { ...check.totals, mismatches: 0 })
})

test('every verdict comes from a container, or from the gate for an empty patch', { skip: needsStack }, async () => {
  const sources: string[] = []
  for (const { episode, verdict, patchBytes, disposition } of episodes) {
    const record = await readOrThrow<VerdictRecord>(world.store, episodeKeys.verdict(episode))
    assert.equal(record.kind, verdict, episode)
    assert.notEqual(disposition, 'infra', episode)
    assert.ok(record.from === 'container' || record.from === 'gate', `${episode}: ${record.from}`)
    if (record.from === 'gate') assert.equal(patchBytes, 0, `${episode} has a patch and was not graded`)
    sources.push(record.from)
  }
  assert.ok(sources.includes('container'), 'no patch was graded at all')
})

test('training with a batch produces another policy with the planned steps', {
  skip: needsStack,
}, async (t) => {
  const batches = await batchesOf(world.store, result.run)
  const [base, rft, rl] = result.stages.map(({ policy }) => policy)
  const ofRft = batches.filter(({ key }) => key.includes('/rft/'))
  t.diagnostic(batches.map(({ key, trajectories }) => `${key}: ${trajectories.length} trajectories`).join('; '))
  if (ofRft.length > 0) assert.notEqual(rft, base)
  else assert.equal(rft, base)
  if (batches.length > ofRft.length) assert.notEqual(rl, rft)
  else assert.equal(rl, rft)
  const planned = batches.reduce((sum, { minibatches }) => sum + minibatches.length, 0)
  assert.equal(Number(rl?.slice(1, 7)), planned)
  assert.equal(result.policy, rl)
})

test('the last policy is promoted as the newest record', { skip: needsStack }, async () => {
  const { run, policy, score } = await newestPromotion(world.store)
  assert.deepEqual([run, policy.version, score.name], [result.run, result.policy, 'rl'])
})

test('the run leaves nothing on the machine', { skip: needsStack }, async () => {
  assert.deepEqual(await leftBehind(world, result.run), [])
})

test('workflow ids are readable paths below the run’s name', { skip: needsStack }, () => {
  assert.match(workflowId, /^train\/mini-\d{4}-\d{2}-\d{2}-[a-z]+$/)
  assert.equal(workflowId, `train/${result.run}`)
  for (const history of histories) {
    assert.ok(history.workflowId.startsWith(workflowId), history.workflowId)
    assert.match(history.workflowId, /^[A-Za-z0-9._/-]+$/)
  }
  const types = new Set(histories.map(({ type }) => type))
  const expected = ['episode', 'evaluate', 'gateTasks', 'promptGroup', 'reinforce', 'rejectionFineTune', 'rollout']
  assert.deepEqual([...types].toSorted(), [...expected, 'trainAgent'])
})

test('search attributes find the run’s episodes by stage, task and outcome', { skip: needsStack }, async () => {
  const { client } = world.connection
  const ofRun = `TrainRun = '${result.run}'`
  const episode = `${ofRun} AND WorkflowType = 'episode' AND TaskId IS NOT NULL AND Outcome IS NOT NULL`
  const queries: [string, number][] = [
    [`${ofRun} AND WorkflowType = 'trainAgent'`, 1],
    [`${episode} AND Turns > 0`, EPISODES],
    [`${episode} AND Stage = 'rft'`, 16],
    [`${episode} AND Stage = 'dapo-1' AND Iteration = 2`, 12],
    [`${episode} AND Evaluation = true`, 24],
  ]
  for (const [query, expected] of queries) {
    let found = -1
    // The index follows the histories within a moment.
    for (let look = 0; look < 40 && found !== expected; look++) {
      found = (await client.workflow.count(query)).count
      if (found !== expected) await sleep(250)
    }
    assert.equal(found, expected, query)
  }
})

test('histories hold only references: no payload over 4 KB, no episode over 150 events or 100 KB', {
  skip: needsStack,
}, (t) => {
  const largest = histories.map(({ largestPayload }) => largestPayload).toSorted((a, b) => b.bytes - a.bytes)[0]
  assert.ok(largest && largest.bytes <= 4 * 1024, `a payload of ${largest?.bytes} bytes in ${largest?.where}`)
  const played = histories.filter(({ type }) => type === 'episode')
  assert.equal(played.length, EPISODES)
  const events = Math.max(...played.map((history) => history.events))
  const bytes = Math.max(...played.map((history) => history.bytes))
  t.diagnostic(`largest payload ${largest.bytes} bytes, largest episode ${events} events and ${bytes} bytes`)
  assert.ok(events <= 150, `${events} events`)
  assert.ok(bytes <= 100 * 1024, `${bytes} bytes`)
})

/** Of all turns that the page lists: length of the reply and of the answer. */
async function shownChars(pages: Pages, { row, turns }: EpisodePage): Promise<[number, number | undefined][]> {
  const parts = new Set(turns.map(({ turn }) => partOf(turn)))
  const read = await Promise.all([...parts].map((part) => pages.read(`turns/${part}/${row.episode}`)))
  return read.flatMap((page) =>
    (page as TurnsPage).turns.map(({ reply, observation }): [number, number | undefined] => [
      reply.chars,
      observation?.text.chars,
    ]),
  )
}

test('the viewer shows every episode with its turns and tests, and the tokens of trained ones', {
  skip: needsStack,
}, async () => {
  const pages = createPages(world.store)
  const run = (await pages.read(`run/${result.run}`)) as RunPage
  assert.deepEqual(
    run.evaluations.map(({ name }) => name),
    ['base', 'rft', 'rl'],
  )
  assert.ok(run.training.some(({ steps }) => steps.some((step) => typeof step['loss'] === 'number')))
  const report = (await pages.read(`report/${result.run}`)) as ReportPage
  assert.equal(report.problem, null)
  const { rows } = (await pages.read(`episodes/${result.run}`)) as EpisodesPage
  assert.deepEqual(
    rows.map(({ episode, state, verdict }) => [episode, state, verdict]),
    episodes.map(({ episode, disposition, verdict }) => [episode, disposition, verdict]),
  )
  const trained = new Set(
    (await batchesOf(world.store, result.run)).flatMap(({ trajectories }) => trajectories.map(({ id }) => id)),
  )
  for (const { episode, verdict } of episodes) {
    const page = (await pages.read(`episode/${episode}`)) as EpisodePage
    const recorded = await turnsOf(world.store, episode)
    assert.deepEqual(
      await shownChars(pages, page),
      recorded.map(({ action, observation }) => [action.text.length, observation?.text.length]),
    )
    assert.equal(page.hasTokens, trained.has(episode))
    if (verdict === 'resolved')
      assert.ok(
        page.tests.every(({ after }) => after === 'PASSED'),
        episode,
      )
    if (!page.hasTokens) continue
    const tokens = (await pages.read(`tokens/${episode}`)) as TokensPage
    assert.deepEqual(
      tokens.ids.filter((_, at) => (tokens.versions[at] ?? -1) >= 0),
      recorded.flatMap(({ action }) => action.ids),
    )
  }
})
