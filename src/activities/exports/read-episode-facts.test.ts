import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { storeEpisode, storeViewedRun } from '../../../test/support/viewed-run.ts'
import { readEpisodeFacts } from './read-episode-facts.ts'

const EPISODES = 80

describe('the episodes of an export', () => {
  let root: string
  let store: ArtifactStore
  const subject = { run: 'run', stages: ['dapo-1'], stage: null }
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'longhaul-facts-'))
    store = createDirectoryStore({ root })
    await storeViewedRun(store, 'run')
    for (let index = 0; index < EPISODES; index++) await storeEpisode(store, { run: 'run', index, turns: 0 })
  })
  after(() => rm(root, { recursive: true, force: true }))

  /** Of the store, with what is done at each read of a record. */
  const watched = (onRead: (key: string) => void): ArtifactStore => ({
    ...store,
    readRecord: (key) => {
      onRead(key)
      return store.readRecord(key)
    },
  })

  test('are read a few dozen ahead of their reader', async () => {
    let results = 0
    const counting = watched((key) => {
      if (key.endsWith('/result.json')) results += 1
    })
    let taken = 0
    for await (const { index } of readEpisodeFacts({ store: counting, subject })) {
      assert.equal(index, taken)
      taken += 1
      assert.ok(results - taken < 32, `${results} were read when ${taken} were taken`)
    }
    assert.deepEqual([taken, results], [EPISODES, EPISODES])
  })

  test('an unreachable store fails the export instead of looking like missing records', async () => {
    const broken = watched((key) => {
      if (key.includes('/tasks/')) throw new LonghaulError({ code: 'Artifact.Unavailable', message: 'no network' })
    })
    await assert.rejects(readEpisodeFacts({ store: broken, subject }).next(), /no network/)
  })

  test('an interrupt ends the export before it reads further episodes', async () => {
    const abort = new AbortController()
    let taken = 0
    const reading = (async () => {
      for await (const _facts of readEpisodeFacts({ store, subject, signal: abort.signal })) {
        taken += 1
        abort.abort(new Error('Ctrl-C'))
      }
    })()
    await assert.rejects(reading, /Ctrl-C/)
    assert.equal(taken, 32)
  })
})
