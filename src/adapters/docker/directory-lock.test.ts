import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { withDirectoryLock } from './directory-lock.ts'

test('callers of one process take turns, and nothing is left of their attempts', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-lock-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  let inside = 0
  const seen: number[] = []
  const work = async (): Promise<void> => {
    inside += 1
    seen.push(inside)
    await sleep(5)
    inside -= 1
  }
  await Promise.all(Array.from({ length: 6 }, () => withDirectoryLock({ path: join(folder, 'image.lock') }, work)))
  assert.deepEqual(seen, [1, 1, 1, 1, 1, 1])
  assert.deepEqual(await readdir(folder), [])
})
