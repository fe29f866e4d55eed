import assert from 'node:assert/strict'
import { test } from 'node:test'

import { isLonghaulError } from '../contracts/errors.ts'
import { StepRunner } from './steps.ts'

function runner(): { steps: StepRunner; lines: string[] } {
  const lines: string[] = []
  return { steps: new StepRunner({ log: (line) => lines.push(line) }), lines }
}

test('two independent steps: both are running before either ends', async () => {
  const { steps } = runner()
  const met = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  const meet = (mine: 0 | 1, other: 0 | 1) => async (): Promise<{ value: number; did: string }> => {
    met[mine].resolve()
    await met[other].promise
    return { value: mine, did: 'met' }
  }
  const first = steps.step({ name: 'first', timeoutMs: 10_000, action: meet(0, 1) })
  const second = steps.step({ name: 'second', timeoutMs: 10_000, action: meet(1, 0) })
  await steps.all()
  assert.deepEqual([await first, await second], [0, 1])
  assert.deepEqual(
    steps.timings.map(({ did }) => did),
    ['met', 'met'],
  )
})

test('a step after another: it starts when the other has ended', async () => {
  const { steps } = runner()
  const order: string[] = []
  const action = (name: string) => async (): Promise<{ value: null; did: string }> => {
    order.push(`${name} starts`)
    await new Promise((resolve) => setImmediate(resolve))
    order.push(`${name} ends`)
    return { value: null, did: 'done' }
  }
  const install = steps.step({ name: 'install', timeoutMs: 10_000, action: action('install') })
  void steps.step({ name: 'start', timeoutMs: 10_000, after: [install], action: action('start') })
  await steps.all()
  assert.deepEqual(order, ['install starts', 'install ends', 'start starts', 'start ends'])
})

test('one step fails: the other is aborted and awaited, dependants never start, the first error is thrown', async () => {
  const { steps } = runner()
  let cleanedUp = false
  let dependantRan = false
  const failing = steps.step({
    name: 'failing',
    timeoutMs: 10_000,
    action: () => Promise.reject(new Error('no disk')),
  })
  void steps.step({
    name: 'slow',
    timeoutMs: 10_000,
    action: ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          setImmediate(() => {
            cleanedUp = true
            reject(signal.reason as Error)
          })
        })
      }),
  })
  void steps.step({
    name: 'dependant',
    timeoutMs: 10_000,
    after: [failing],
    action: async () => {
      dependantRan = true
      return { value: null, did: 'ran' }
    },
  })
  await assert.rejects(steps.all(), /no disk/)
  assert.equal(cleanedUp, true)
  assert.equal(dependantRan, false)
})

test('a step that does not end: it is stopped at its time-out with a message that names it', async () => {
  const { steps } = runner()
  void steps.step({
    name: 'stuck',
    timeoutMs: 20,
    action: ({ signal }) =>
      new Promise((_, reject) => {
        // Keeps the loop alive: the time-out's own timer does not.
        const alive = setInterval(() => undefined, 1_000)
        signal.addEventListener('abort', () => {
          clearInterval(alive)
          reject(signal.reason as Error)
        })
      }),
  })
  await assert.rejects(steps.all(), (error) => isLonghaulError(error) && /"stuck".*was stopped/.test(error.message))
})
