import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groupFindings } from './blocker.ts'
import type { Finding } from './judge-activity.ts'

function finding(changes: Partial<Finding>): Finding {
  return {
    on: { kind: 'policy-server', name: 'http://10.0.0.7:8000' },
    doing: 'sampling',
    sinceMs: 1_000,
    workflowId: 'train/demo-a/dapo-1/0003/task/x/ep/07',
    activity: 'advanceEpisode',
    attempt: 1,
    error: null,
    isBlocker: true,
    ...changes,
  }
}

test('groups waits by what they wait for, the oldest group first, with its oldest episode', () => {
  const engine = { kind: 'engine', name: 'unix:///run/docker.sock on a' } as const
  const [server, other, ...more] = groupFindings([
    finding({ sinceMs: 5_000, workflowId: 'train/demo-a/dapo-1/0003/task/y/ep/00' }),
    finding({ sinceMs: 2_000 }),
    finding({ sinceMs: 3_000, on: engine, error: { code: 'Sandbox.EngineUnavailable', message: 'silent' } }),
  ])
  assert.deepEqual(more, [])
  assert.equal(server?.since, '1970-01-01T00:00:02.000Z')
  assert.equal(server?.count, 2)
  const { stage, iteration, task, episode } = server?.for ?? {}
  assert.deepEqual([stage, iteration, task, episode], ['dapo-1', 3, 'x', 7])
  assert.match(server?.toDo ?? '', /curl http:\/\/10\.0\.0\.7:8000\/v1\/models/)
  assert.deepEqual(other?.on, engine)
})

test('a wait for the queue of a role or a host names the worker to start', () => {
  const toDo = (queue: string) => groupFindings([finding({ on: { kind: 'worker', name: queue } })])[0]?.toDo
  assert.match(toDo('trainer') ?? '', /longhaul worker --role trainer/)
  assert.match(toDo('sandbox.host-1.abc') ?? '', /--role sandbox on host-1/)
  assert.match(toDo('placement') ?? '', /longhaul worker --role sandbox$/)
})

test('a wait for a place on a full host does not blame the engine', () => {
  const [full] = groupFindings([finding({ on: { kind: 'host', name: 'host-1' } })])
  assert.match(full?.toDo ?? '', /another sandbox ends.*sandbox\.request/)
})

test('a wait for a server that another run holds gives advice about that run', () => {
  const [held] = groupFindings([finding({ error: { code: 'Model.Busy', message: 'held by b' } })])
  assert.match(held?.toDo ?? '', /another run holds the server/)
})
