import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ensurePythonEnv, preparedPython } from './python-env.ts'

test('an environment that says it is whole and has no interpreter any more is made again; looking makes none', async (t) => {
  const cacheDir = await mkdtemp(join(tmpdir(), 'longhaul-python-'))
  t.after(() => rm(cacheDir, { recursive: true, force: true }))
  const lockFile = join(cacheDir, 'empty.lock')
  await writeFile(lockFile, '# nothing\n')
  let folder = ''
  const ensure = () =>
    ensurePythonEnv({
      cacheDir,
      packages: { lockFile, what: 'no packages', takes: 'a moment' },
      context: {
        signal: t.signal,
        // The first word of an installation ends it: that it begins is the question, and it would take a minute.
        log(line) {
          const lock = readdirSync(join(cacheDir, 'python')).find((name) => name.endsWith('.lock')) ?? ''
          folder = join(cacheDir, 'python', lock.replace(/\.lock$/, ''))
          throw new Error(line)
        },
      },
    })
  assert.equal(await preparedPython(cacheDir), null)
  await assert.rejects(ensure, /^Error: installing no packages/)
  await mkdir(join(folder, 'bin'), { recursive: true })
  await writeFile(join(folder, 'bin/python'), '')
  await writeFile(join(folder, 'READY'), '')
  assert.deepEqual(await ensure(), { value: join(folder, 'bin/python'), did: 'cached' })
  // As after an update of the system that took its Python away.
  await rm(join(folder, 'bin'), { recursive: true })
  await assert.rejects(ensure, /^Error: installing no packages/)
  // It is another one than the trainer's.
  assert.equal(await preparedPython(cacheDir), null)
})
