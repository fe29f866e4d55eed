import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { exampleAttempt } from '../../../../test/support/launcher-examples.ts'
import { attemptDirectory, claimFence, highestFence, readHandle, specPath, writeHandle } from './attempt-files.ts'

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

/** A file system may keep the name of a file and lose its bytes. Every look at the job then failed, and none could stop it. */
test('a handle that a machine lost with its power counts as none', async () => {
  const { job } = exampleAttempt({ nodes: 1, ranksPerNode: 1 })
  const attempt = { job: { ...job, jobDirectory }, fence: 3 }
  assert.equal(await readHandle(attempt), null)
  await writeHandle(attempt, { slurmJob: '7' })
  assert.deepEqual(await readHandle(attempt), { slurmJob: '7' })
  for (const torn of ['', '{"slurmJ', '\0\0\0\0']) {
    await writeFile(join(attemptDirectory(jobDirectory, 3), 'handle.json'), torn)
    assert.equal(await readHandle(attempt), null)
  }
})
