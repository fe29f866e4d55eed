/** The kill scenario is only worth what its audit would notice: each fault is made here once. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { episodeKeys } from '../../../src/contracts/keys.ts'
import { makeRecord } from '../episode-records.ts'
import type { Exchange } from '../recording-proxy.ts'
import { auditTurns } from './audit-turns.ts'
import { putPart } from '../record-examples.ts'

const EPISODE = makeRecord({ turns: 2 })
const RECORDED_MS = 1_800_000_000_000

let folder: string
let store: ArtifactStore

/** Two turns: prompts of 10 and of 10 + 3 + 4 = 17 tokens, each recorded at RECORDED_MS. */
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-audit-'))
  store = createDirectoryStore({ root: folder })
  for (const turn of [0, 1]) {
    const promptDelta = Array.from({ length: turn === 0 ? 10 : 4 }, () => 1)
    const action = { turn, promptDelta, ids: [1, 2, 3], token: `token${turn}`, command: null }
    const key = episodeKeys.action(EPISODE.episode, turn)
    await putPart(store, key, action)
    await putPart(store, episodeKeys.observation(EPISODE.episode, turn), { turn })
    await utimes(store.path(key), RECORDED_MS / 1000, RECORDED_MS / 1000)
  }
})

after(() => rm(folder, { recursive: true, force: true }))

function asked(promptTokens: number, startedMs: number, session = EPISODE.episode): Exchange {
  return { session, promptTokens, startedMs, endedMs: startedMs + 50, status: 200 }
}

const honest = [asked(10, RECORDED_MS - 100), asked(17, RECORDED_MS - 60)]

test('accepts a turn that is sampled once before its record', async () => {
  assert.deepEqual(await auditTurns(store, [EPISODE], honest), {
    turns: 2,
    sampledAgain: 0,
    commandsCounted: 0,
    violations: [],
  })
})

test('allows and counts a sample that is lost before its record and requested again', async () => {
  const { sampledAgain, violations } = await auditTurns(store, [EPISODE], [...honest, asked(17, RECORDED_MS - 10)])
  assert.deepEqual([sampledAgain, violations], [1, []])
})

test('reports a committed turn that is sampled again, with turn and delay', async () => {
  const { violations } = await auditTurns(store, [EPISODE], [...honest, asked(17, RECORDED_MS + 5)])
  assert.equal(violations.length, 1)
  assert.match(violations[0] ?? '', /turn 1 was sampled again 5 ms after its record/)
})

test('allows a worker that was frozen one late request for each episode, and no second one', async () => {
  const late = asked(17, RECORDED_MS + 5)
  assert.deepEqual((await auditTurns(store, [EPISODE], [...honest, late], { lateSamples: 1 })).violations, [])
  const { violations } = await auditTurns(store, [EPISODE], [...honest, late, late], { lateSamples: 1 })
  assert.equal(violations.length, 2)
})

test('reports a sample without a record, an episode without a result, and a missing turn', async () => {
  const stray = await auditTurns(store, [EPISODE], [...honest, asked(99, RECORDED_MS)])
  assert.match(stray.violations.join(), /prompt of 99 tokens/)
  const lost = await auditTurns(store, [EPISODE], [...honest, asked(10, RECORDED_MS, 'run/rft/0000/task/09')])
  assert.match(lost.violations.join(), /run\/rft\/0000\/task\/09 was sampled for and has no result/)
  const short = await auditTurns(store, [{ ...EPISODE, turns: 3 }], honest)
  assert.match(short.violations.join(), /counts 3 turns and has 2 records/)
})
