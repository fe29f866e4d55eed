import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import { boundStore, createDirectoryStore } from './directory-store.ts'

test('a read that is never answered fails at its deadline with the store’s name and the key', async () => {
  const root = await mkdtemp(join(tmpdir(), 'stuck-store-'))
  // Only a dead mount makes a plain file wait, and no test can make one.
  const stuck = { ...createDirectoryStore({ root }), readRecord: () => new Promise<never>(() => undefined) }
  const store = boundStore({ store: stuck, name: root, answerMs: 100 })
  try {
    await assert.rejects(store.readRecord('runs/a/recipe.json'), (error) => {
      assert.ok(isLonghaulError(error))
      assert.equal(error.code, 'Artifact.Unavailable')
      assert.equal(error.retryable, true)
      assert.match(error.message, new RegExp(`store=${root}, key=runs/a/recipe.json`))
      return true
    })
    // The rest of the store is well.
    assert.equal(await store.read('runs/b/recipe.json'), null)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
})
