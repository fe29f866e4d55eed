import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { episodeKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import { misplaced, openRecord, SCHEMA_VERSIONS, sealRecord } from './store-rules.ts'

const EPISODE = 'run/rft/0001/owner__thing-1/00'
const OTHER = 'run/rft/0001/owner__thing-1/01'

const OWN: [string, object][] = [
  [episodeKeys.action(EPISODE, 7), { schema: 'longhaul.action/1', episode: EPISODE, turn: 7 }],
  [episodeKeys.observation(EPISODE, 7), { schema: 'longhaul.observation/1', episode: EPISODE, turn: 7 }],
  [episodeKeys.tree(EPISODE, 7), { schema: 'longhaul.tree/1', episode: EPISODE, turn: 7 }],
  [episodeKeys.start(EPISODE), { schema: 'longhaul.episode-start/1', episode: EPISODE }],
  [episodeKeys.placement(EPISODE, 2), { schema: 'longhaul.placement/1', episode: EPISODE, placement: 2 }],
  [episodeKeys.spec(EPISODE), { schema: 'longhaul.episode/1', episode: EPISODE }],
  [episodeKeys.disposition(EPISODE), { schema: 'longhaul.disposition/1', episode: EPISODE, turns: 3 }],
  [episodeKeys.capture(EPISODE), { schema: 'longhaul.capture/1', episode: EPISODE }],
  [episodeKeys.verdict(EPISODE), { schema: 'longhaul.verdict/1', episode: EPISODE, taskId: 'owner__thing-1' }],
  [episodeKeys.result(EPISODE), { schema: 'longhaul.episode-result/1', episode: EPISODE, iteration: 1 }],
  [episodeKeys.gradingAttempt(EPISODE, 1), { schema: 'longhaul.grading-time-out/1', episode: EPISODE, attempt: 1 }],
  [runKeys.ledger('run', 'rft', 1), { schema: 'longhaul.ledger/1', run: 'run', stage: 'rft', iteration: 1 }],
  [suiteKeys.task('abc', 'owner__thing-1'), { taskId: 'owner__thing-1' }],
]

test('each record fits its own key and no key of another record', () => {
  for (const [key, record] of OWN) {
    assert.equal(misplaced(key, record), null, key)
    for (const [other] of OWN) {
      const isCovered = other.startsWith('episodes/') && key.startsWith('episodes/')
      if (other !== key && isCovered && !other.includes('/grading/'))
        assert.notEqual(misplaced(other, record), null, `${key} at ${other}`)
    }
  }
})

test('a record of another episode, turn, placement, iteration or task is named', () => {
  const faults = [
    [
      episodeKeys.verdict(OTHER),
      { schema: 'longhaul.verdict/1', episode: EPISODE },
      `it is a record of episode ${EPISODE}`,
    ],
    [
      episodeKeys.action(EPISODE, 8),
      { schema: 'longhaul.action/1', episode: EPISODE, turn: 7 },
      'it is a record of turn 7',
    ],
    [episodeKeys.placement(EPISODE, 3), { episode: EPISODE, placement: 2 }, 'it is a record of placement 2'],
    [
      runKeys.ledger('run', 'rft', 2),
      { run: 'run', stage: 'rft', iteration: 1 },
      'it is a record of run, rft, iteration 1',
    ],
    [suiteKeys.task('abc', 'owner__thing-2'), { taskId: 'owner__thing-1' }, 'it is the task owner__thing-1'],
  ] as const
  for (const [key, record, fault] of faults) assert.equal(misplaced(key, record), fault)
})

test('a record of a later version is refused and says so, whatever its key', () => {
  for (const [key, schema] of [
    [episodeKeys.verdict(EPISODE), 'longhaul.verdict/2'],
    [runKeys.evaluation('run', 'held-out'), 'longhaul.evaluation/3'],
    [runKeys.recipe('run'), 'longhaul.recipe/2'],
  ] as const) {
    assert.throws(() => openRecord(key, sealRecord({ schema, episode: EPISODE })), {
      code: 'Artifact.Corrupt',
      message: new RegExp(`a later version of Longhaul wrote it \\(${schema}\\)`),
    })
  }
})

test('every schema that the sources write is one that they read', () => {
  const words = execFileSync(
    'grep',
    ['-rhoE', "'longhaul\\.[a-z-]+/[0-9]+'", '--include=*.ts', '--exclude=*.test.ts', '.'],
    {
      cwd: join(import.meta.dirname, '../..'),
      encoding: 'utf8',
    },
  )
  const written = new Set(words.split('\n').filter((word) => word !== ''))
  assert.ok(written.size > 40)
  for (const word of written) {
    const [, name = '', version] = /'longhaul\.([a-z-]+)\/(\d+)'/.exec(word) ?? []
    assert.ok(Number(version) <= (SCHEMA_VERSIONS[name] ?? 1), word)
  }
})
