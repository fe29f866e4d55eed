import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { clearEngineRemains, engineFiles, mountsBelow } from './private-engine.ts'

test('finds only mounts at and below the folders, deepest first, with decoded spaces', async () => {
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

test('kills a shell that an engine left before the shell sees its command end', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'remains-'))
  try {
    const files = engineFiles({ cacheDir: folder, runDir: folder })
    await mkdir(files.execRoot)
    const [journal, ready] = [join(folder, 'journal'), join(folder, 'ready')]
    // It waits for whichever command ends first; the other 299 give it time to write, if it may.
    const turn = `for i in $(seq 300); do sleep 60 & done; : >'${ready}'; wait -n; echo "$?" >'${journal}'`
    const shim = spawn(
      '/bin/bash',
      ['-c', `/bin/bash -c '${turn.replaceAll("'", `'"'"'`)}'; :`, `${files.execRoot}/shim`],
      {
        stdio: 'ignore',
        detached: true,
      },
    )
    const closed = new Promise((resolve) => shim.on('close', resolve))
    for (let tries = 0; tries < 600; tries += 1) {
      if (await exists(ready)) break
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    assert.deepEqual(await clearEngineRemains({ files }), ['302 leftover processes'])
    await closed
    assert.equal(await exists(journal), false, await readFile(journal, 'utf8').catch(() => ''))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
