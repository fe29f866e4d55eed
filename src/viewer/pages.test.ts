import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createDirectoryStore } from '../adapters/artifacts/directory-store.ts'
import { keepLog } from '../adapters/artifacts/stored-log.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { episodeKeys, runKeys } from '../contracts/keys.ts'
import { makeEvaluation, type MakeEvaluationInput } from '../../test/support/evaluation-records.ts'
import {
  storeEpisode,
  storeProximal,
  storeRecords,
  storeTokens,
  storeViewedRun,
} from '../../test/support/viewed-run.ts'
import { createPages, type Pages } from './pages.ts'
import type {
  EpisodePage,
  EpisodesPage,
  ReportPage,
  RunPage,
  RunsPage,
  TokensPage,
  TurnPage,
  TurnsPage,
  TurnView,
} from './pages.types.ts'
import type { RunSource } from './run-source.ts'
import { timelineOf } from './shared/timeline.ts'
import { turnsOfPart } from './shared/turn-parts.ts'
import { putPart } from '../../test/support/record-examples.ts'

let root: string
let store: ArtifactStore
let pages: Pages

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'longhaul-pages-'))
  store = createDirectoryStore({ root })
  await storeViewedRun(store, 'r')
  pages = createPages(store)
})

after(() => rm(root, { recursive: true, force: true }))

async function episodePage(episode: string): Promise<EpisodePage> {
  return (await pages.read(`episode/${episode}`)) as EpisodePage
}

async function turnsOf(episode: string, part = 0): Promise<TurnView[]> {
  return ((await pages.read(`turns/${part}/${episode}`)) as TurnsPage).turns
}

test('a finished episode has statement, turns with times, patch, tests before and after, and reward parts', async () => {
  const log = [
    "+ : '>>>>> Start Test Output'",
    '=== short test summary info ===',
    'PASSED tests/test_m.py::test_f',
    'FAILED tests/test_m.py::test_g - assert 1',
    "+ : '>>>>> End Test Output'",
    '',
  ].join('\n')
  const fields = { run: 'r', taskId: 'owner__name-1', index: 3, turns: 5, verdict: 'resolved' as const }
  const episode = await storeEpisode(store, { ...fields, statement: 'f returns 1' })
  await keepLog(store, episodeKeys.grading(episode, 'fork-4.0.3', 'test_output.txt'), Buffer.from(log))
  const page = await episodePage(episode)
  assert.equal(page.statement?.text, 'f returns 1')
  assert.deepEqual(
    page.turns.map(({ turn, command, exitCode }) => [turn, command, exitCode]),
    [0, 1, 2, 3, 4].map((turn) => [turn, `ls ${turn}`, 0]),
  )
  assert.deepEqual(
    (await turnsOf(episode)).map(({ turn, command, observation }) => [turn, command?.text, observation?.text.text]),
    [0, 1, 2, 3, 4].map((turn) => [turn, `ls ${turn}`, `out ${turn}`]),
  )
  assert.deepEqual(
    page.tests.map(({ name, before, after }) => [name, before, after]),
    [
      ['tests/test_m.py::test_f', 'fails', 'PASSED'],
      ['tests/test_m.py::test_g', 'passes', 'FAILED'],
    ],
  )
  assert.match(page.patch?.text ?? '', /\+ {4}return 2/)
  // Turns 1 to 4 are free of 6, so the fifth costs half of min −0.5.
  assert.deepEqual(page.reward, {
    reward: 0.75,
    parts: [
      { name: 'verdict', value: 1 },
      { name: 'turn-penalty', value: -0.25 },
    ],
  })
  const first = timelineOf(page)
    .bars.filter(({ turn }) => turn === 0)
    .map(({ what, fromMs, toMs }) => [what, fromMs, toMs])
  assert.deepEqual(first, [
    ['waiting', 0, 600],
    ['sampling', 600, 1000],
    ['waiting', 1000, 1200],
    ['execution', 1200, 1500],
  ])
})

test('a running episode has its turns so far, the last one without an answer', async () => {
  const episode = await storeEpisode(store, { run: 'r', taskId: 'owner__name-2', turns: 2, hasEnded: false })
  const page = await episodePage(episode)
  assert.equal(page.row.state, 'running')
  assert.deepEqual(
    page.turns.map(({ isAnswered }) => isAnswered),
    [true, false],
  )
  assert.equal(page.reward, null)
})

test('a result with a wrong hash is marked in its row, and the others are still there', async () => {
  const episode = await storeEpisode(store, { run: 'r', taskId: 'owner__name-3', turns: 1, hasEnded: false })
  await writeFile(store.path(episodeKeys.result(episode)), '{"schema":"longhaul.episode-result/1","sha256":"00"}')
  const { rows } = (await pages.read('episodes/r')) as EpisodesPage
  assert.equal(rows.find((row) => row.episode === episode)?.state, 'unreadable')
  assert.ok(rows.length >= 3)
  assert.equal((await episodePage(episode)).turns.length, 1)
})

test('the page has the beginning of a text of ten million characters, and the turn’s page all of it', async () => {
  const output = 'x'.repeat(10_000_000)
  const episode = await storeEpisode(store, { run: 'r', taskId: 'owner__name-4', turns: 1, output })
  const shown = (await turnsOf(episode))[0]?.observation?.text
  assert.equal(shown?.chars, output.length)
  assert.ok((shown?.text.length ?? Infinity) < 10_000)
  assert.equal(((await pages.read(`turn/0/${episode}`)) as TurnPage).observation, output)
})

test('the page of an episode has no texts of turns, and each part those of its own', async () => {
  const [reply, output] = ['what the agent said', 'what the world answered']
  const command = `${'x'.repeat(500)} the end of the command`
  const episode = await storeEpisode(store, { run: 'r', taskId: 'owner__name-5', turns: 45, reply, command, output })
  const text = JSON.stringify(await episodePage(episode))
  for (const absent of [reply, output, 'the end of the command']) assert.ok(!text.includes(absent), absent)
  const parts = await Promise.all([0, 1, 2, 3].map((part) => turnsOf(episode, part)))
  assert.deepEqual(
    parts.map((turns) => turns.map(({ turn }) => turn)),
    [turnsOfPart(0), turnsOfPart(1), [40, 41, 42, 43, 44], []],
  )
  for (const { command: said, observation, ...view } of parts.flat()) {
    assert.deepEqual([view.reply.text, said?.text, observation?.text.text], [reply, command, output])
  }
})

test('a run without evaluations shows facts at once and why there is no report', async () => {
  const run = (await pages.read('run/r')) as RunPage
  assert.deepEqual([run.runKind, run.recipe?.name, run.evaluations], ['train', 'test', []])
  const report = (await pages.read('report/r')) as ReportPage
  assert.equal(report.kind, 'report')
})

test('a running run without a report shows its cost so far and the lost part of it', async () => {
  await storeViewedRun(store, 'played')
  const usage = { promptTokens: 700, cachedTokens: null, completionTokens: 30 }
  const lost = { disposition: 'infra' as const, verdict: null, failure: 'Sandbox.Lost' }
  await storeEpisode(store, { run: 'played', taskId: 'a', turns: 2, usage, ...lost })
  await storeEpisode(store, { run: 'played', taskId: 'b', turns: 2, hasEnded: false })
  await store.put('runs/played/dapo-1/iterations/0001/ledger.json', Buffer.from('torn'))
  const { tables, problem } = (await pages.read('report/played')) as ReportPage
  assert.match(problem ?? '', /runs\/played|ledger|record/i)
  assert.deepEqual(
    tables.map(({ title, rows }) => [title, rows[0]?.slice(0, 3)]),
    [
      // No job has begun, and two sandboxes were at work from 1 to 3.5 and to 3 s. The last turn waits for its answer.
      ['What the run cost', ['dapo-1', '0.0', '4.5']],
      ['Paid for and lost', ['dapo-1', 'episode', 'infra: Sandbox.Lost']],
    ],
  )
})

test('names outside of the run’s episodes are no pages', async () => {
  const names = [
    '',
    'runs/x',
    'run/nobody',
    'run/..',
    'run/../../etc',
    'episodes/%2e%2e',
    'episode/r/../../../../etc/passwd',
    'episode/r/dapo-1/0001/../owner__name-1/03',
    'episode/r/dapo-1/0001/owner__name-1/03/turns',
    'episode/r/dapo-1/0001/owner__name-1/.',
    'episode/r/dapo-1/0001/owner__name-1/03\0',
    'turns/-1/r/dapo-1/0001/owner__name-1/03',
    'turns/1e9/r/dapo-1/0001/owner__name-1/03',
    'turns/0/r/dapo-1/0001/owner__name-1/99',
    'turn/-1/r/dapo-1/0001/owner__name-1/03',
    'turn/1e9/r/dapo-1/0001/owner__name-1/03',
    'tokens/r/dapo-1/0001/owner__name-1/99',
    'compare/r/a/r',
    'compare/r/../r/..',
    'constructor',
    '__proto__',
  ]
  for (const name of names) assert.equal(await pages.read(name), null, name)
})

test('tokens equal the row of the batch file, in its order', async () => {
  const trajectories = await storeTokens(store, { run: 'r', iteration: 7, taskId: 't-1' })
  assert.ok((trajectories[1]?.maskedTokens ?? 0) > 0)
  for (const [at, trajectory] of trajectories.entries()) {
    const page = (await pages.read(`tokens/${trajectory.record.episode}`)) as TokensPage
    assert.deepEqual(page.ids, [...trajectory.ids])
    assert.deepEqual(page.mask, [...trajectory.lossMask])
    assert.deepEqual(page.logprobs, [...trajectory.logprobs])
    const paid = at === 0 ? 0.5 : -1.25
    assert.deepEqual(
      page.advantages,
      page.mask.map((one) => (one === 1 ? paid : 0)),
    )
    assert.deepEqual(page.clip, { low: 0.2, high: 0.28 })
    assert.equal(page.ratios, null)
  }

  // One ratio is 1.1, one 1.5, and so on.
  const ratioOf = (place: number): number => 1.1 + (place % 3) * 0.4
  await storeProximal(store, { run: 'r', iteration: 7 }, trajectories, ratioOf)
  for (const { record, lossMask } of trajectories) {
    const { ratios, mask } = (await pages.read(`tokens/${record.episode}`)) as TokensPage
    assert.deepEqual(
      ratios?.map((ratio) => Number(ratio.toFixed(4))),
      [...lossMask].map((one, place) => (one === 1 ? Number(ratioOf(place).toFixed(4)) : 0)),
    )
    assert.deepEqual(mask, [...lossMask])
  }
})

test('the page of a run with a million turns is bounded by its episodes and reads no turn', async () => {
  await storeViewedRun(store, 'million')
  const episodes = 1_000
  await storeRecords(store, { run: 'million', episodes, turns: 1_000 })
  const asked: string[] = []
  const watched: ArtifactStore = {
    ...store,
    list: (prefix) => (asked.push(prefix), store.list(prefix)),
    readRecord: (key) => (asked.push(key), store.readRecord(key)),
    read: (key) => (asked.push(key), store.read(key)),
  }
  const page = (await createPages(watched).read('episodes/million')) as EpisodesPage
  assert.equal(page.rows.length, episodes)
  assert.equal(
    page.rows.reduce((sum, row) => sum + (row.turns ?? 0), 0),
    1_000_000,
  )
  // A byte for each second turn.
  assert.ok(JSON.stringify(page).length < episodes * 500, String(JSON.stringify(page).length))
  assert.deepEqual(
    asked.filter((key) => key.includes('/turns/')),
    [],
  )
})

const TWO_TASKS: MakeEvaluationInput['tasks'] = [
  { taskId: 'a', attempts: [1] },
  { taskId: 'b', attempts: [0] },
]

test('the list of runs has times and states from the server, scores from records, and the latest start first', async (t) => {
  const own = await mkdtemp(join(tmpdir(), 'longhaul-runs-'))
  t.after(() => rm(own, { recursive: true, force: true }))
  const runs = createDirectoryStore({ root: own })
  for (const [at, run] of ['old', 'scored', 'open'].entries()) {
    const startedAt = at === 0 ? {} : { startedAt: `2026-11-2${at}T10:00:00.000Z` }
    await putPart(runs, runKeys.claim(run), { run, kind: 'train', recipe: 'demo', ...startedAt })
  }
  for (const name of ['base', 'dapo-1-0003', 'rl', 'rl.verified'])
    await putPart(runs, runKeys.evaluation('scored', name), makeEvaluation({ run: 'scored', name, tasks: TWO_TASKS }))
  await putPart(runs, runKeys.durations('scored', 1), { schema: 'longhaul.durations/1', durations: {} })

  const read = async (source: RunSource | null) => ((await createPages(runs, source).read('runs')) as RunsPage).runs
  const alone = await read(null)
  assert.deepEqual(
    alone.map(({ run, state, startedAt, endedAt }) => [run, state, startedAt, endedAt]),
    [
      ['open', null, '2026-11-22T10:00:00.000Z', null],
      ['scored', 'completed', '2026-11-21T10:00:00.000Z', null],
      ['old', null, null, null],
    ],
  )
  assert.deepEqual(
    alone.map(({ score }) => score?.name ?? null),
    [null, 'rl', null],
  )
  assert.equal(alone[1]?.score?.passAt1, 0.5)

  const at = (hour: number): Date => new Date(Date.UTC(2026, 10, 23, hour))
  const source: RunSource = {
    runs: async () => ({
      ok: true,
      value: [
        { run: 'old', state: 'running', startedAt: at(3), endedAt: null },
        { run: 'old', state: 'failed', startedAt: at(1), endedAt: at(2) },
      ],
    }),
    history: async () => ({ ok: false, why: 'not asked' }),
    blockers: async () => ({ ok: false, why: 'not asked' }),
  }
  const [first] = await read(source)
  assert.deepEqual([first?.run, first?.state, first?.startedAt], ['old', 'running', at(3).toISOString()])
})

test('of a run that has ended the list reads no record twice', async (t) => {
  const own = await mkdtemp(join(tmpdir(), 'longhaul-runs-'))
  t.after(() => rm(own, { recursive: true, force: true }))
  const runs = createDirectoryStore({ root: own })
  await putPart(runs, runKeys.claim('r'), { run: 'r', kind: 'eval', recipe: 'demo' })
  await putPart(runs, runKeys.durations('r', 1), { schema: 'longhaul.durations/1', durations: {} })
  const reads: string[] = []
  const seen = { ...runs, readRecord: <T extends object>(key: string) => (reads.push(key), runs.readRecord<T>(key)) }
  const seenPages = createPages(seen)
  await seenPages.read('runs')
  const before = reads.length
  await seenPages.read('runs')
  assert.deepEqual([before > 0, reads.length - before], [true, 0])
})
