import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LonghaulError } from '../../contracts/errors.ts'
import type { ActivityWait } from '../../contracts/waits.types.ts'
import type { PolicyClient, SampleRequest } from '../../contracts/policy.types.ts'
import { createWaitBoard } from './wait-board.ts'
import { watchPolicy } from './watch.ts'

const notServed = new LonghaulError({ code: 'Model.NotServed', message: 'Expected the policy to be served' })
const request = { policy: 'v000001-aaaaaaaa' } as SampleRequest
const never = new AbortController().signal

/** Serves another policy for the first calls. */
function serverOf(refusals: number, error = notServed) {
  let calls = 0
  const sample = async () => {
    if (calls++ < refusals) throw error
    return { text: 'x' }
  }
  return { client: { sample } as unknown as PolicyClient, calls: () => calls }
}

test('a server is restarted on another policy amid an episode: named while it lasts, and the sample goes on', async () => {
  const board = createWaitBoard()
  const { client, calls } = serverOf(3)
  const seen: (ActivityWait | null)[] = []
  const watched = watchPolicy({
    client: {
      ...client,
      sample: async (...call) => {
        seen.push(board.current())
        return client.sample(...call)
      },
    },
    url: 'http://gpu-1',
    servedWithinMs: 60_000,
    askEveryMs: 1,
  })
  assert.equal((await board.run(() => watched.sample(request, never))).text, 'x')
  assert.equal(calls(), 4)
  const last = seen.at(-1)
  assert.deepEqual(last?.on, { kind: 'policy-server', name: 'http://gpu-1' })
  assert.deepEqual([last?.trouble?.code, last?.trouble?.tries], ['Model.NotServed', 3])
})

test('it stays so for as long as one attempt waits: the failure is the caller’s, and so is any other at once', async () => {
  const { client, calls } = serverOf(1)
  const watched = watchPolicy({ client, url: 'http://gpu-1', servedWithinMs: 0, askEveryMs: 1 })
  await assert.rejects(watched.sample(request, never), { code: 'Model.NotServed' })
  assert.equal(calls(), 1)
  const refused = serverOf(1, new LonghaulError({ code: 'Config.Invalid', message: 'no' }))
  const other = watchPolicy({ client: refused.client, url: 'u', servedWithinMs: 60_000, askEveryMs: 1 })
  await assert.rejects(other.sample(request, never), { code: 'Config.Invalid' })
  assert.equal(refused.calls(), 1)
})

test('the wait is cancelled: the signal’s own reason', async () => {
  const controller = new AbortController()
  const { client } = serverOf(99)
  const watched = watchPolicy({ client, url: 'u', servedWithinMs: 60_000, askEveryMs: 60_000 })
  const waiting = watched.sample(request, controller.signal)
  controller.abort(new Error('stop'))
  await assert.rejects(waiting, /stop/)
})
