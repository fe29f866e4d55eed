import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { claimFence, highestFence, specPath } from './attempt-files.ts'

let jobDirectory: string

before(async () => {
  jobDirectory = await mkdtemp(join(tmpdir(), 'attempt-files-'))
})
after(() => rm(jobDirectory, { recursive: true, force: true }))

test('the first of many launchers wins a fence, and its spec stays', async () => {
  const claim = (launcher: number) => claimFence({ jobDirectory, fence: 1, spec: { launcher } })
  const claims = await Promise.all(Array.from({ length: 20 }, (_, launcher) => claim(launcher)))
  assert.equal(claims.filter((won) => won).length, 1)
  assert.equal(await claim(20), false)
  const spec = JSON.parse(await readFile(specPath(jobDirectory, 1), 'utf8')) as { launcher: number }
  assert.equal(spec.launcher, claims.indexOf(true))
  assert.equal(await highestFence(jobDirectory), 1)
  assert.equal(await claimFence({ jobDirectory, fence: 2, spec: {} }), true)
  assert.equal(await highestFence(jobDirectory), 2)
})
