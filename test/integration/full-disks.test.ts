/** A full disk under the artifact store and under an engine's data: each has its name, in the failure and in what `doctor` says. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { writeTree } from '../../src/adapters/artifacts/weights/stored-tree.ts'
import { toSandboxError } from '../../src/adapters/docker/engine/engine-errors.ts'
import type { LonghaulError } from '../../src/contracts/errors.ts'
import { blobKey } from '../../src/contracts/keys.ts'
import { sha256Hex } from '../../src/platform/hash.ts'
import { adviceFor } from '../../src/client/blockers/blocker.ts'
import { WORK_CHECKS } from '../../src/stack/doctor/work-checks.ts'
import { stackPaths } from '../../src/stack/paths.ts'

const skip = process.getuid?.() === 0 ? false : 'needs root: mounts a file system'
let folder: string
let outside: string

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
  outside = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
  if (skip === false) execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'longhaul-test', folder])
})

after(() => {
  if (skip === false) execFileSync('umount', ['-l', folder])
  for (const made of [folder, outside]) rmSync(made, { recursive: true, force: true })
})

test('a full disk of the store is Artifact.OutOfDisk, is retried, leaves no partial file, and is reported', {
  skip,
}, async () => {
  const artifactsDir = join(folder, 'artifacts')
  const store = createDirectoryStore({ root: artifactsDir })
  const bytes = Buffer.alloc(2 << 20, 'x')
  await assert.rejects(store.put('big', bytes), (error: LonghaulError) => {
    assert.deepEqual([error.code, error.retryable, error.details['errno']], ['Artifact.OutOfDisk', true, 'ENOSPC'])
    return true
  })
  assert.deepEqual(readdirSync(join(artifactsDir, '.tmp')), [])
  assert.equal(await store.read('big'), null)
  mkdirSync(join(folder, 'rest'))
  assert.throws(() => writeFileSync(join(folder, 'rest', 'filler'), bytes), { code: 'ENOSPC' })
  const check = WORK_CHECKS.find(({ name }) => name === 'store')
  const finding = await check?.run({ ...stackPaths(), artifactsDir })
  assert.equal(finding?.level, 'fail')
  assert.match(`${finding?.value} ${finding?.fix}`, /Artifact\.OutOfDisk.*free disk/)
  assert.match(adviceFor({ kind: 'artifact-store', name: artifactsDir }, 'Artifact.OutOfDisk'), /free disk/)
})

test('a disk that takes only a part of downloaded weights fails the download', {
  skip,
}, async () => {
  rmSync(join(folder, 'rest'), { recursive: true, force: true })
  const content = Buffer.alloc(2 << 20, 'x')
  const sha256 = sha256Hex(content)
  const files = [{ path: 'model.safetensors', bytes: content.length, blobs: [sha256] }]
  const store = createDirectoryStore({ root: join(outside, 'artifacts') })
  await store.put(blobKey(sha256), content)
  const directory = join(folder, 'weights')
  await assert.rejects(writeTree(store, { files, directory }), { code: 'ENOSPC' })
})

test('a full disk during an operation of an engine is Sandbox.OutOfDisk', () => {
  for (const said of [
    'mkdir /data/overlay2/x-init: no space left on device',
    'Error processing tar file(exit status 1): write /x: no space left on device',
    'write /var/lib/x: disk quota exceeded',
  ]) {
    const error = toSandboxError(Object.assign(new Error(said), { statusCode: 500 }), { doing: 'x', details: {} })
    assert.deepEqual([error.code, error.retryable], ['Sandbox.OutOfDisk', true])
  }
  const other = toSandboxError(Object.assign(new Error('no such container'), { statusCode: 404 }), {
    doing: 'x',
    details: {},
  })
  assert.equal(other.code, 'Sandbox.Lost')
})
