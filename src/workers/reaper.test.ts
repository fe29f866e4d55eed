import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ReapReport } from '../adapters/docker/reaper/reap-orphaned.ts'
import { startReaper } from './reaper.ts'

const NOTHING: ReapReport = { removed: [], kept: [], failed: [] }
const REMOVED: ReapReport = {
  ...NOTHING,
  removed: [{ kind: 'container', name: 'lh-a', run: 'r', episode: 'e', role: 'agent', ageS: 9, why: 'owner-closed' }],
}

/** Sweeps as scripted, one after another; resolves when the script is played. */
async function play(script: ((signal: AbortSignal) => Promise<ReapReport>)[], timeoutMs = 1_000) {
  const lines: string[] = []
  const { promise: played, resolve } = Promise.withResolvers<void>()
  let sweeps = 0
  const log = (message: string, { reason, total }: Record<string, unknown>): void => {
    const fact = typeof reason === 'string' ? reason : typeof total === 'number' ? String(total) : null
    lines.push(fact === null ? message : `${message}: ${fact}`)
  }
  const reaper = startReaper({
    sweep: (signal) => {
      const step = script[sweeps++]
      if (step !== undefined) return step(signal)
      resolve()
      return Promise.resolve(NOTHING)
    },
    log: { info: log, warn: log },
    intervalMs: 1,
    timeoutMs,
  })
  await played
  await reaper.stop()
  return { lines, sweeps }
}

test('logs each resource that a sweep removes, with the total since the start', async () => {
  const { lines } = await play([async () => REMOVED, async () => NOTHING, async () => REMOVED])
  assert.deepEqual(lines, ['removed orphaned resources: 1', 'removed orphaned resources: 2'])
})

test('reports an engine that goes away and comes back once each, and continues to sweep', async () => {
  const gone = async (): Promise<ReapReport> => Promise.reject(new Error('connect ENOENT'))
  const { lines } = await play([gone, gone, async () => REMOVED])
  assert.deepEqual(lines, [
    'orphaned resources could not be removed: connect ENOENT',
    'removed orphaned resources: 1',
    'orphaned resources can be removed again',
  ])
})

test('abandons a sweep that ignores its signal and starts the next one', async () => {
  const { lines } = await play([() => new Promise(() => undefined), async () => REMOVED], 20)
  assert.deepEqual(lines, [
    'orphaned resources could not be removed: not finished within 20 ms',
    'removed orphaned resources: 1',
    'orphaned resources can be removed again',
  ])
})

test('reports an overdue resource that the engine keeps and does not count it as removed', async () => {
  const [thing] = REMOVED.removed
  const failed = { ...NOTHING, failed: [{ ...thing!, error: 'device is busy' }] }
  const { lines } = await play([async () => failed, async () => failed, async () => NOTHING])
  assert.deepEqual(lines, [
    'orphaned resources could not be removed: lh-a: device is busy',
    'orphaned resources can be removed again',
  ])
})

test('a stop amid a sweep aborts its signal and starts no other sweep', async () => {
  let sweeps = 0
  let aborted = false
  const { promise: begun, resolve } = Promise.withResolvers<void>()
  const reaper = startReaper({
    sweep: (signal) => {
      sweeps += 1
      resolve()
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          aborted = true
          reject(signal.reason as Error)
        })
      })
    },
    log: { info: assert.fail, warn: assert.fail },
    intervalMs: 1,
  })
  await begun
  await reaper.stop()
  assert.deepEqual({ sweeps, aborted }, { sweeps: 1, aborted: true })
})
