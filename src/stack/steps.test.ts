import assert from 'node:assert/strict'
import { test } from 'node:test'

import { isLonghaulError } from '../contracts/errors.ts'
import { createFakeClock } from '../../test/support/fake-clock.ts'
import { describeBoard, emptyBoard, type StepContext, StepRunner } from './steps.ts'

function runner(): { steps: StepRunner; lines: string[] } {
  const lines: string[] = []
  return { steps: new StepRunner({ log: (line) => lines.push(line) }), lines }
}

test('two independent steps run concurrently', async () => {
  const { steps } = runner()
  const met = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  const meet = (mine: 0 | 1, other: 0 | 1) => async (): Promise<{ value: number; did: string }> => {
    met[mine].resolve()
    await met[other].promise
    return { value: mine, did: 'met' }
  }
  const first = steps.step({ name: 'first', silenceMs: 60_000, action: meet(0, 1) })
  const second = steps.step({ name: 'second', silenceMs: 60_000, action: meet(1, 0) })
  await steps.all()
  assert.deepEqual([await first, await second], [0, 1])
  assert.deepEqual(
    steps.timings.map(({ did }) => did),
    ['met', 'met'],
  )
})

test('a dependent step starts after the other has ended', async () => {
  const { steps } = runner()
  const order: string[] = []
  const action = (name: string) => async (): Promise<{ value: null; did: string }> => {
    order.push(`${name} starts`)
    await new Promise((resolve) => setImmediate(resolve))
    order.push(`${name} ends`)
    return { value: null, did: 'done' }
  }
  const install = steps.step({ name: 'install', silenceMs: 60_000, action: action('install') })
  void steps.step({ name: 'start', silenceMs: 60_000, after: [install], action: action('start') })
  await steps.all()
  assert.deepEqual(order, ['install starts', 'install ends', 'start starts', 'start ends'])
})

test('a failing step aborts the others and awaits them, starts no dependants, and its error is thrown', async () => {
  const { steps } = runner()
  let cleanedUp = false
  let dependantRan = false
  const failing = steps.step({
    name: 'failing',
    silenceMs: 60_000,
    action: () => Promise.reject(new Error('no disk')),
  })
  void steps.step({
    name: 'slow',
    silenceMs: 60_000,
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
    silenceMs: 60_000,
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

/** A step that lasts until it is told to end. */
function held(steps: StepRunner, name: string) {
  const end = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<StepContext>()
  const ended = steps.step({
    name,
    silenceMs: 60_000,
    action: async (context) => {
      begun.resolve(context)
      await end.promise
      return { value: null, did: 'built' }
    },
  })
  return { begun: begun.promise, end: () => end.resolve(), ended }
}

test('logs a long step every 30 seconds with the last output of its program', async () => {
  const clock = createFakeClock()
  const lines: string[] = []
  const steps = new StepRunner({ log: (line) => lines.push(line), clock })
  const build = held(steps, 'temporal')
  const context = await build.begun
  context.log('building with Go')
  clock.pass(31_000)
  context.saw?.('google.golang.org/grpc')
  context.saw?.('')
  clock.pass(60_000)
  assert.deepEqual(lines.slice(1), [
    'set-up  temporal        running for 30 s: building with Go',
    'set-up  temporal        running for 60 s: google.golang.org/grpc',
    'set-up  temporal        running for 90 s: google.golang.org/grpc',
  ])
  build.end()
  await build.ended
  clock.pass(60_000)
  assert.equal(lines.length, 5)
})

test('a display shows all running steps, the log repeats none of them, and an ended one disappears', async () => {
  const clock = createFakeClock()
  const lines: string[] = []
  const board = emptyBoard()
  const steps = new StepRunner({ log: (line) => lines.push(line), clock, board })
  const [go, pip] = [held(steps, 'temporal'), held(steps, 'python')]
  ;(await pip.begun).saw?.('Downloading torch')
  await go.begun
  clock.pass(45_000)
  assert.equal(describeBoard(board, clock.now()), 'setting up: temporal 45 s, python 45 s (Downloading torch)')
  assert.deepEqual(lines, [])
  go.end()
  await go.ended
  assert.equal(describeBoard(board, clock.now()), 'setting up: python 45 s (Downloading torch)')
  pip.end()
  await steps.all()
  assert.equal(describeBoard(board, clock.now()), '')
  board.waiting = 'worker-control'
  assert.equal(describeBoard(board, clock.now()), 'waiting for worker-control')
})

/** Ends when it is told to stop. */
function stuck(steps: StepRunner, silenceMs: number) {
  const begun = Promise.withResolvers<StepContext>()
  void steps.step({
    name: 'stuck',
    silenceMs,
    action: (context) =>
      new Promise((_, reject) => {
        begun.resolve(context)
        context.signal.addEventListener('abort', () => reject(context.signal.reason as Error))
      }),
  })
  return begun.promise
}

const saying =
  (pattern: RegExp) =>
  (error: unknown): boolean =>
    isLonghaulError(error) && error.code === 'Stack.SetupFailed' && pattern.test(error.message)

test('a step that shows progress is not stopped, however slow, and a silent one is', async () => {
  const clock = createFakeClock()
  const steps = new StepRunner({ log: () => undefined, clock })
  const context = await stuck(steps, 20 * 60_000)
  for (let hour = 0; hour < 3; hour += 1) {
    for (const line of ['google.golang.org/grpc', 'k8s.io/api', 'k8s.io/client-go', 'k8s.io/kubernetes']) {
      clock.pass(15 * 60_000)
      context.saw?.(line)
    }
  }
  clock.pass(19 * 60_000)
  assert.equal(context.signal.aborted, false)
  // A blank line is no progress.
  context.saw?.(' ')
  clock.pass(2 * 60_000)
  await assert.rejects(steps.all(), saying(/"stuck" showed no progress for 1200 s and was stopped.*safe to run again/))
})

test('a step that talks for ever is stopped after four hours', async () => {
  const clock = createFakeClock()
  const steps = new StepRunner({ log: () => undefined, clock })
  const context = await stuck(steps, 20 * 60_000)
  for (let minute = 0; minute <= 4 * 60; minute += 1) {
    context.log(`waiting for a mirror, ${minute}`)
    clock.pass(60_000)
  }
  await assert.rejects(steps.all(), saying(/"stuck" took longer than 4 hours/))
})
