/** What was finished before a restart is finished: each way of doing it once more is made here once. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { AuditEntry } from './audit-log.ts'
import { judgeRestarts, type JudgeRestartsInput } from './judge-restarts.ts'

const DONE = 'run/eval/0000/task/00'
const OPEN = 'run/eval/0000/task/01'
const JOB = 'runs/run/dapo-1/iterations/0001/job-00'

async function withStore(use: (store: ArtifactStore) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'restarts-'))
  try {
    await use(createDirectoryStore({ root: folder }))
  } finally {
    await rm(folder, { recursive: true })
  }
}

function judged(store: ArtifactStore, change: Partial<JudgeRestartsInput>): Promise<string[]> {
  const restarts = [{ atMs: 100, finished: new Set([DONE]), trained: new Map([[JOB, 1]]) }]
  return judgeRestarts({ store, restarts, exchanges: [], visits: [], entries: [], ...change })
}

const exchange = (session: string, startedMs: number) => ({
  session,
  startedMs,
  promptTokens: 1,
  endedMs: startedMs,
  status: 200,
})
const opened = (episode: string, atMs: number): AuditEntry => ({
  atMs,
  process: 'sandbox',
  kind: 'opened',
  episode,
  placement: 1,
  container: `box of ${episode}`,
})
const begins = (episode: string, atMs: number): AuditEntry => ({
  atMs,
  process: 'sandbox',
  kind: 'turn-begins',
  container: `box of ${episode}`,
  turn: 0,
  token: 'a',
  fence: 1,
})

test('accepts that an unfinished episode continues and that a finished one had its turns before', () =>
  withStore(async (store) => {
    const exchanges = [exchange(DONE, 50), exchange(OPEN, 150)]
    const entries = [opened(DONE, 40), begins(DONE, 50), opened(OPEN, 140), begins(OPEN, 150)]
    assert.deepEqual(await judged(store, { exchanges, entries }), [])
  }))

test('reports a finished episode that is sampled, placed, executed or graded again', () =>
  withStore(async (store) => {
    assert.match((await judged(store, { exchanges: [exchange(DONE, 150)] })).join(), /was sampled again/)
    assert.match((await judged(store, { entries: [opened(DONE, 150)] })).join(), /was placed again/)
    const late = [opened(DONE, 50), begins(DONE, 150)]
    assert.match((await judged(store, { entries: late })).join(), /was executed again/)
    const grading = { phase: 'grading', process: 'sandbox', episode: DONE, container: null, key: null } as const
    assert.match((await judged(store, { visits: [{ ...grading, atMs: 150 }] })).join(), /was graded again/)
  }))

test('reports a finished training job that starts again', () =>
  withStore(async (store) => {
    await mkdir(store.path(`${JOB}/attempts/1`), { recursive: true })
    assert.deepEqual(await judged(store, {}), [])
    await mkdir(store.path(`${JOB}/attempts/2`))
    assert.match((await judged(store, {})).join(), /job-00 had finished and was begun 1 more times/)
  }))
