import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../../contracts/errors.ts'
import { createEnginePulse } from '../engine/engine-errors.ts'
import { type RunnerConnection, RunnerStreamBroken } from './runner-connection.ts'
import { type RunnerAccess, type RunnerPool, createRunnerPool } from './runner-pool.ts'

const never = new AbortController().signal
const REPLY = { id: '', words: ['error', 'answered'], openFile: '', state: Buffer.alloc(0), body: Buffer.alloc(0) }

interface World extends RunnerAccess {
  /** Lines that reached a runner, by connection. */
  asked: { line: string; answer: () => void }[]
  /** Looks at a container after its connection has failed. */
  looks: number
  kills: number
  opened: RunnerConnection[]
}

/** Runners that answer when the test says so. */
function newWorld(connectMs = 0): World {
  const world: World = {
    asked: [],
    looks: 0,
    kills: 0,
    opened: [],
    pulse: createEnginePulse({ ping: async () => undefined }),
    async connect() {
      await sleep(connectMs)
      let isOpen = true
      let fail: ((error: Error) => void) | null = null
      const connection: RunnerConnection = {
        get isOpen() {
          return isOpen
        },
        ask(line) {
          if (!isOpen) return Promise.reject(new RunnerStreamBroken('the stream is closed'))
          if (fail !== null) return Promise.reject(new Error('a runner answers one request at a time'))
          const { promise, resolve, reject } = Promise.withResolvers<typeof REPLY>()
          fail = reject
          world.asked.push({
            line: line.toString(),
            answer: () => {
              fail = null
              resolve(REPLY)
            },
          })
          return promise
        },
        close() {
          isOpen = false
          fail?.(new RunnerStreamBroken('closed by us'))
        },
      }
      world.opened.push(connection)
      return connection
    },
    async requireRunning() {
      world.looks += 1
    },
    judgeSilence: async () => new LonghaulError({ code: 'Sandbox.Ended', message: 'silent' }),
    async kill() {
      world.kills += 1
    },
  }
  return world
}

/** Longer than the pool waits before it connects again. */
const AGAIN_MS = 200

/** Makes a request, aborts it after the wait, makes the next one, and waits until the first would have been sent again. */
async function askAfterAborted(runners: RunnerPool, wait: () => Promise<unknown>) {
  const stop = new AbortController()
  const old = runners.request({ name: 'box', line: 'old', timeoutMs: 60_000, signal: stop.signal })
  const stopped = assert.rejects(old, /stopped/)
  await wait()
  stop.abort(new Error('stopped'))
  await stopped
  const reply = runners.request({ name: 'box', line: 'next', timeoutMs: 60_000, signal: never })
  await sleep(AGAIN_MS)
  return { reply }
}

/** The story: an attempt is stopped in the middle of a command, and the next attempt on this worker asks the same sandbox. */
test('an aborted request is not sent again, and the next request keeps its connection', async () => {
  const world = newWorld()
  const runners = createRunnerPool(world)
  const next = await askAfterAborted(runners, async () => {
    while (world.asked.length < 1) await sleep(1)
  })
  assert.deepEqual(
    world.asked.map(({ line }) => line),
    ['old', 'next'],
  )
  assert.equal(world.opened.filter(({ isOpen }) => isOpen).length, 1)
  world.asked[1]?.answer()
  assert.deepEqual((await next.reply).words, REPLY.words)
  runners.dispose()
})

/** The story: the access starts a container again that something has killed, and the pool has killed this one itself. */
test('after a request that was not answered in time nothing looks at the killed container again', async () => {
  const world = newWorld()
  const runners = createRunnerPool(world)
  await assert.rejects(runners.request({ name: 'box', line: 'slow', timeoutMs: 20, signal: never }), /silent/)
  assert.equal(world.kills, 1)
  const before = world.opened.length
  await sleep(AGAIN_MS)
  assert.equal(world.looks, 0)
  assert.equal(world.opened.length, before)
  runners.dispose()
})

/** The story: an engine stands still for a minute while a policy samples, and the renewal kills what it should keep alive. */
test('a renewal that is not answered in time leaves its sandbox alone', async () => {
  const world = newWorld()
  const runners = createRunnerPool(world)
  const late = runners.request({ name: 'box', line: 'renew', timeoutMs: 20, whenLate: 'leave', signal: never })
  await assert.rejects(late, { code: 'Sandbox.EngineUnavailable' })
  assert.equal(world.kills, 0)
  runners.dispose()
})

test('a connection that is made too late for an aborted request is closed', async () => {
  const world = newWorld(50)
  const runners = createRunnerPool(world)
  const next = await askAfterAborted(runners, () => sleep(5))
  assert.deepEqual(
    world.asked.map(({ line }) => line),
    ['next'],
  )
  assert.equal(world.opened.filter(({ isOpen }) => isOpen).length, 1)
  world.asked[0]?.answer()
  await next.reply
  runners.dispose()
})
