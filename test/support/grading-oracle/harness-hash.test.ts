/** An oracle that was changed would agree with anything: its code is hashed before it is asked. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashHarness, requireHarness } from './harness-hash.ts'

test('the hash changes with any byte, name or file but not with compiled code, and other versions are refused', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-harness-'))
  try {
    await mkdir(join(folder, 'lib'))
    await mkdir(join(folder, 'scripts/__pycache__'), { recursive: true })
    await writeFile(join(folder, 'lib/a.py'), 'x = 1')
    const before = await hashHarness('rebench-v2', folder)
    await writeFile(join(folder, 'scripts/__pycache__/a.pyc'), 'compiled')
    await writeFile(join(folder, 'README.md'), 'no code')
    assert.equal(await hashHarness('rebench-v2', folder), before)
    await writeFile(join(folder, 'lib/a.py'), 'x = 2')
    const changed = await hashHarness('rebench-v2', folder)
    await writeFile(join(folder, 'scripts/b.py'), '')
    const more = await hashHarness('rebench-v2', folder)
    assert.equal(new Set([before, changed, more]).size, 3)
    await assert.rejects(
      requireHarness('rebench-v2', folder),
      new RegExp(`c71902a.*whose code hashes to \\w{64}; got ${more}`),
    )
    await assert.rejects(requireHarness('rebench-v2', join(folder, 'nowhere')), /ENOENT/)
  } finally {
    await rm(folder, { recursive: true })
  }
})
