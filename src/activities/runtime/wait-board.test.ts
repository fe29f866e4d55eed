import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import { createWaitBoard, reportTransientError, waitingFor } from './wait-board.ts'

const STORE = { kind: 'artifact-store', name: '/data' } as const
const SERVER = { kind: 'policy-server', name: 'http://127.0.0.1:1' } as const
const refused = new LonghaulError({ code: 'Model.Unavailable', message: 'ECONNREFUSED' })

test('the board shows a wait deep in an activity for as long as it lasts', async () => {
  const board = createWaitBoard()
  assert.equal(board.current(), null)
  await board.run(async () => {
    await sleep(1)
    await waitingFor({ doing: 'reading x', on: STORE }, async () => {
      assert.deepEqual(
        { ...board.current(), sinceMs: 0 },
        { doing: 'reading x', on: STORE, sinceMs: 0, expectedUntilMs: null, trouble: null },
      )
    })
  })
  assert.equal(board.current(), null)
})

test('the board shows the inner of two nested waits, then the outer one again', async () => {
  const board = createWaitBoard()
  await board.run(() =>
    waitingFor({ doing: 'training', on: { kind: 'trainer', name: 'job' } }, async () => {
      await waitingFor({ doing: 'reading x', on: STORE }, async () => {
        assert.equal(board.current()?.doing, 'reading x')
      })
      assert.equal(board.current()?.doing, 'training')
    }),
  )
})

test('two concurrent activities each have their own wait on the board', async () => {
  const [first, second] = [createWaitBoard(), createWaitBoard()]
  await Promise.all([
    first.run(() => waitingFor({ doing: 'sampling', on: SERVER }, () => sleep(5))),
    second.run(() =>
      waitingFor({ doing: 'reading x', on: STORE }, async () => {
        await sleep(1)
        assert.equal(first.current()?.doing, 'sampling')
        assert.equal(second.current()?.doing, 'reading x')
      }),
    ),
  ])
})

test('the failure of a wait counts its tries since the wait began, and restarts with another code', async () => {
  const board = createWaitBoard()
  await board.run(() =>
    waitingFor({ doing: 'sampling', on: SERVER }, async () => {
      reportTransientError(refused)
      reportTransientError(refused)
      const { trouble, sinceMs } = board.current() ?? {}
      assert.deepEqual(trouble, { code: 'Model.Unavailable', message: 'ECONNREFUSED', sinceMs, tries: 2 })
      reportTransientError(new LonghaulError({ code: 'Model.RateLimited', message: '429' }))
      assert.equal(board.current()?.trouble?.tries, 1)
    }),
  )
})

test('a wait counts since the last progress of its dependency', async () => {
  const board = createWaitBoard()
  await board.run(() =>
    waitingFor({ doing: 'training', on: STORE }, async ({ progressed }) => {
      const later = Date.now() + 60_000
      progressed(later)
      progressed(later - 5_000)
      assert.equal(board.current()?.sinceMs, later)
    }),
  )
})

test('a trouble of a dependency lasts until it is taken back or the dependency makes progress', async () => {
  const board = createWaitBoard()
  await board.run(() =>
    waitingFor({ doing: 'training', on: { kind: 'trainer', name: 'job' } }, async ({ progressed, troubled }) => {
      for (const end of [() => troubled(null), () => progressed(Date.now())]) {
        troubled(refused)
        troubled(refused)
        const { code, tries } = board.current()?.trouble ?? {}
        assert.deepEqual([code, tries], ['Model.Unavailable', 2])
        end()
        assert.equal(board.current()?.trouble, null)
      }
    }),
  )
})

test('an error that passes through two waits is attributed to the inner one, and only that error', async () => {
  const board = createWaitBoard()
  const failing = board.run(() =>
    waitingFor({ doing: 'publishing', on: SERVER }, () =>
      waitingFor({ doing: 'reading x', on: STORE }, () => Promise.reject(refused)),
    ),
  )
  await assert.rejects(failing, refused)
  assert.deepEqual(board.failed(refused), { on: STORE, doing: 'reading x' })
  assert.equal(board.failed(new Error('another')), null)
})

test('a wait outside of an activity is executed and not recorded', async () => {
  reportTransientError(refused)
  assert.equal(await waitingFor({ doing: 'reading x', on: STORE }, () => Promise.resolve(3)), 3)
})
