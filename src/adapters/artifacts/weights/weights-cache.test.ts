import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { exists } from '../../../platform/files.ts'
import { createWeightsCache } from './weights-cache.ts'

const root = await mkdtemp(join(tmpdir(), 'longhaul-weights-cache-'))
after(() => rm(root, { recursive: true }))

test('a full disk gives one error with the setting, leaves nothing partial, and later puts succeed', async () => {
  const cache = createWeightsCache({ directory: join(root, 'full'), limitBytes: 1_000 })
  let isFull = true
  const bring = () =>
    cache.hold({ keys: ['policies/a'] }, () =>
      cache.bring({
        key: 'policies/a',
        bytes: 1,
        isWhole: exists,
        async fill(directory) {
          await writeFile(join(directory, 'half'), 'x')
          if (isFull) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' })
        },
      }),
    )
  await assert.rejects(bring(), { code: 'Artifact.OutOfDisk', message: /LONGHAUL_WEIGHTS_GIB/ })
  assert.equal(await exists(cache.path('policies/a')), false)
  assert.deepEqual(await readdir(cache.path('.tmp')), [])
  isFull = false
  await bring()
  assert.deepEqual(await readdir(cache.path('policies/a')), ['half'])
})

test('a directory that a trainer writes without a lease stays while its files are young', async () => {
  const cache = createWeightsCache({ directory: join(root, 'young'), limitBytes: 0, leaseMs: 1 })
  const bring = (key: string) =>
    cache.bring({ key, bytes: 1, isWhole: exists, fill: (directory) => writeFile(join(directory, 'w'), 'w') })
  await bring('policies/written')
  await bring('policies/other')
  await cache.makeRoom(1)
  assert.deepEqual((await readdir(cache.path('policies'))).sort(), ['other', 'written'])
  await cache.hold({ keys: ['policies/other'] }, async () => {})
  await new Promise((resolve) => setTimeout(resolve, 20))
  await cache.makeRoom(1)
  assert.deepEqual(await readdir(cache.path('policies')), ['written'])
})
