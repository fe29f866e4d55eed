import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { mountsBelow } from './engine-remains.ts'

test('a mount table: only mounts at and below the folders, deepest first, spaces decoded', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mounts-'))
  try {
    const table = join(folder, 'mountinfo')
    const line = (path: string): string => `36 35 98:0 / ${path} rw,noatime shared:1 - ext4 /dev/sda rw`
    const paths = [
      '/',
      '/c/engine',
      '/c/engine/overlay2/a/merged',
      '/c/engine-of-another',
      '/run/x\\040y/exec/netns/default',
    ]
    await writeFile(table, `${paths.map(line).join('\n')}\n`)
    assert.deepEqual(await mountsBelow(['/c/engine', '/run/x y/exec'], table), [
      '/run/x y/exec/netns/default',
      '/c/engine/overlay2/a/merged',
      '/c/engine',
    ])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
