import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { answerToFailure } from '../../domain/failure-answers.ts'
import { cachedRecords, createRecipeReader, RUN_RECORDS_FRESH_MS } from './stored-records.ts'

/** A store that says which keys were read, and has all but `absent`. */
function readStore(absent = new Set<string>()) {
  const read: string[] = []
  const readRecord = async <T extends object>(key: string): Promise<T | null> => {
    read.push(key)
    if (key === 'torn') throw new Error('torn')
    return absent.has(key) ? null : ({ key } as T)
  }
  return { read, absent, store: { readRecord } }
}

test('the least recently used record is evicted and read again', async () => {
  const { read, store } = readStore()
  const records = cachedRecords(store, { key: (name: string) => name, max: 2 })
  for (const name of ['a', 'b', 'a', 'c', 'a', 'b']) assert.deepEqual(await records(name), { key: name })
  assert.deepEqual(read, ['a', 'b', 'c', 'b'])
})

test('concurrent callers share one read', async () => {
  const { read, store } = readStore()
  const records = cachedRecords(store, { key: (name: string) => name, max: 2 })
  await Promise.all([records('a'), records('a'), records('a')])
  assert.deepEqual(read, ['a'])
})

test('an absent or unreadable record is requested again', async () => {
  const { read, store, absent } = readStore(new Set(['late']))
  const records = cachedRecords(store, { key: (name: string) => name, max: 2 })
  assert.equal(await records('late'), null)
  absent.delete('late')
  assert.deepEqual(await records('late'), { key: 'late' })
  await assert.rejects(records('torn'), /torn/)
  await assert.rejects(records('torn'), /torn/)
  assert.deepEqual(read, ['late', 'late', 'torn', 'torn'])
})

// The story: a run is removed, and its name is given to a run of another recipe. A worker that still knew the old recipe would play the
// new run by it.
test('a removable record is read again once it is no longer fresh', async () => {
  const { read, store } = readStore()
  let nowMs = 0
  const records = cachedRecords(store, {
    key: (name: string) => name,
    max: 2,
    freshMs: RUN_RECORDS_FRESH_MS,
    stopwatch: () => nowMs,
  })
  for (nowMs of [0, 10_000, 29_999, 30_000, 59_999, 60_000]) await records('a')
  assert.deepEqual(read, ['a', 'a', 'a'])
})

// The story: an operator starts a worker of the same server with another artifact folder. It takes episodes of the run and loses each.
test('a worker whose store does not know the run fails the run, and names the store', async () => {
  const root = '/nowhere/artifacts'
  const read = createRecipeReader(createDirectoryStore({ root }))
  await assert.rejects(read('demo-2026-11-20-a'), (error) => {
    assert.ok(isLonghaulError(error))
    assert.match(error.message, /demo-2026-11-20-a .* \/nowhere\/artifacts\/runs\..*LONGHAUL_ARTIFACTS/)
    assert.deepEqual(answerToFailure(error.code), { kind: 'fail-run' })
    return true
  })
})
