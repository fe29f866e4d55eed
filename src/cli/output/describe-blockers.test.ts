import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Blocker, RunBlockers } from '../../client/index.ts'
import { announceBlockers } from './describe-blockers.ts'

const server: Blocker = {
  on: { kind: 'policy-server', name: 'http://10.0.0.7:8000' },
  doing: 'sampling',
  since: '2026-11-21T12:00:00.000Z',
  for: { workflowId: 'train/a', stage: null, iteration: null, task: null, episode: null, activity: null, attempt: 1 },
  count: 1,
  error: { code: 'Model.Unavailable', message: 'ECONNREFUSED' },
  toDo: 'restart it',
}

function answer(blockers: Blocker[]): RunBlockers {
  return { workflowId: 'train/a', at: '', blockers, waits: [], self: null, workflows: 1, notLookedAt: 0 }
}

test('a blocker comes, stays, and goes while a run is followed: it is said once, and that the run goes on, once', async () => {
  const over = new AbortController()
  const answers = [answer([]), answer([server]), answer([server]), null, answer([server]), answer([]), answer([])]
  const said: string[] = []
  await announceBlockers({
    everyMs: 1,
    signal: over.signal,
    say: (line) => said.push(line),
    async look() {
      const next = answers.shift()
      if (answers.length === 0) over.abort()
      if (next === null || next === undefined) throw new Error('the server is away')
      return next
    },
  })
  assert.deepEqual(said, [
    'waits on policy server http://10.0.0.7:8000 (sampling) since 2026-11-21T12:00:00.000Z: Model.Unavailable: ECONNREFUSED; restart it',
    'goes on',
  ])
})
