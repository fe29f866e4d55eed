import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { withDirectoryLock } from './directory-lock.ts'

test('callers of one process take turns and leave no file', async (t) => {
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

test('releasing a lock neither fails nor removes it when its next holder has already taken it', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-lock-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'image.lock')
  const take = () => withDirectoryLock({ path }, async () => undefined)
  // Begun at every distance from the release of the one before.
  for (let round = 0; round < 400; round += 1) {
    const first = take()
    await sleep((round % 40) / 20)
    await Promise.all([first, take()])
  }
  assert.deepEqual(await readdir(folder), [])
})
