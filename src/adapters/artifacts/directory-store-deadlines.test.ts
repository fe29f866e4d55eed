import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import { createDirectoryStore } from './directory-store.ts'

test('reading a file that never answers fails at its deadline with the store’s name and the key', async () => {
  const root = await mkdtemp(join(tmpdir(), 'stuck-store-'))
  const pipe = join(root, 'runs', 'a', 'recipe.json')
  await mkdir(join(root, 'runs', 'a'), { recursive: true })
  execFileSync('mkfifo', [pipe])
  const store = createDirectoryStore({ root, answerMs: 100 })
  try {
    await assert.rejects(store.readRecord('runs/a/recipe.json'), (error) => {
      assert.ok(isLonghaulError(error))
      assert.equal(error.code, 'Artifact.Unavailable')
      assert.equal(error.retryable, true)
      assert.match(error.message, new RegExp(`store=${root}, key=runs/a/recipe.json`))
      return true
    })
    // The rest of the store is well.
    assert.equal(await store.readRecord('runs/b/recipe.json'), null)
  } finally {
    // The blocked call gets its end, else the process could not.
    createWriteStream(pipe).end()
    await rm(root, { recursive: true, force: true })
  }
})
