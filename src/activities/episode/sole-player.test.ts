import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EpisodeProgress } from '../../contracts/activities.types.ts'
import type { ActivityScope } from '../runtime/activity-runtime.ts'
import { createSolePlayer } from './sole-player.ts'

const PROGRESS: EpisodeProgress = { turns: 3, disposition: null }

function scopeOf(signal: AbortSignal = new AbortController().signal): ActivityScope {
  const owner = { owner: 'episode', ownerRun: 'run' }
  return { signal, attempt: 1, order: 1, owner, startedMs: 0, failing: null, beat: () => undefined }
}

function attemptOf(fence: number, { signal, name = 'sandbox' }: { signal?: AbortSignal; name?: string } = {}) {
  return { sandbox: { name }, fence, scope: scopeOf(signal) }
}

/** Plays until it is told to end, and notes when it began and ended. */
function createPlay(log: string[]) {
  return (name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<EpisodeProgress>()
    const play = async ({ signal }: ActivityScope): Promise<EpisodeProgress> => {
      log.push(`${name} begins`)
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
      return promise.finally(() => log.push(`${name} ends`))
    }
    return { play, end: () => resolve(PROGRESS), fail: (error: Error) => reject(error) }
  }
}

test('an attempt with the same fence waits for the one that plays and returns its progress', async () => {
  const log: string[] = []
  const playAlone = createSolePlayer()
  const [first, second] = ['first', 'second'].map(createPlay(log))
  assert.ok(first && second)
  const both = [playAlone(attemptOf(7), first.play), playAlone(attemptOf(7), second.play)]
  first.end()
  assert.deepEqual(await Promise.all(both), [PROGRESS, PROGRESS])
  assert.deepEqual(log, ['first begins', 'first ends'])
})

test('a failure of the attempt that plays is that of the one that waits', async () => {
  const playAlone = createSolePlayer()
  const { play, fail } = createPlay([])('first')
  const both = [playAlone(attemptOf(7), play), playAlone(attemptOf(7), play)]
  fail(new Error('broken'))
  const results = await Promise.allSettled(both)
  assert.deepEqual(
    results.map((result) => (result.status === 'rejected' ? (result.reason as Error).message : result.value)),
    ['broken', 'broken'],
  )
})

test('a later attempt stops the one that plays, and begins once that has ended', async () => {
  const log: string[] = []
  const playAlone = createSolePlayer()
  const [first, second] = ['first', 'second'].map(createPlay(log))
  assert.ok(first && second)
  const stopped = assert.rejects(playAlone(attemptOf(7), first.play), { code: 'Sandbox.Foreign' })
  const later = playAlone(attemptOf(8), second.play)
  await stopped
  second.end()
  assert.deepEqual(await later, PROGRESS)
  assert.deepEqual(log, ['first begins', 'first ends', 'second begins', 'second ends'])
})

test('an earlier attempt plays itself after the later one was cancelled', async () => {
  const log: string[] = []
  const playAlone = createSolePlayer()
  const [later, earlier] = ['later', 'earlier'].map(createPlay(log))
  assert.ok(later && earlier)
  const cancel = new AbortController()
  const cancelled = assert.rejects(playAlone(attemptOf(9, { signal: cancel.signal }), later.play), /cancelled/)
  const waiting = playAlone(attemptOf(8), earlier.play)
  cancel.abort(new Error('cancelled'))
  await cancelled
  earlier.end()
  assert.deepEqual(await waiting, PROGRESS)
  assert.deepEqual(log, ['later begins', 'later ends', 'earlier begins', 'earlier ends'])
})

test('an attempt that waits ends when it is cancelled, and the other plays on', async () => {
  const playAlone = createSolePlayer()
  const { play, end } = createPlay([])('first')
  const first = playAlone(attemptOf(7), play)
  const cancel = new AbortController()
  const waiting = playAlone(attemptOf(7, { signal: cancel.signal }), play)
  cancel.abort(new Error('cancelled'))
  await assert.rejects(waiting, /cancelled/)
  end()
  assert.deepEqual(await first, PROGRESS)
})

test('attempts in two sandboxes play side by side', async () => {
  const log: string[] = []
  const playAlone = createSolePlayer()
  const [first, second] = ['first', 'second'].map(createPlay(log))
  assert.ok(first && second)
  const both = [playAlone(attemptOf(7), first.play), playAlone(attemptOf(9, { name: 'other' }), second.play)]
  assert.deepEqual(log, ['first begins', 'second begins'])
  first.end()
  second.end()
  await Promise.all(both)
})
