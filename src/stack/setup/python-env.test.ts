import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ensurePythonEnv, findPython, preparedPython } from './python-env.ts'

test('an environment whose interpreter is gone is created again, but not by a check', async (t) => {
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

test('chooses the locked Python version, or else one that can create an environment', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-pythons-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const make = async (version: string, hasVenv: boolean): Promise<string> => {
    const path = join(folder, `python${version}-${hasVenv ? 'venv' : 'bare'}`)
    await writeFile(path, `#!/bin/sh\nprintf '%s\\n' ${version} ${hasVenv ? 'True' : 'False'} ${path}\n`, {
      mode: 0o755,
    })
    return path
  }
  const [old, locked, bareLocked, next, bareNext, newest] = [
    await make('3.10', true),
    await make('3.11', true),
    await make('3.11', false),
    await make('3.12', true),
    await make('3.12', false),
    await make('3.13', true),
  ]
  const absent = join(folder, 'absent')
  const found = async (...candidates: string[]) => (await findPython({ candidates }))?.path ?? null
  assert.equal(await found(old, bareLocked, next, newest, locked), locked)
  assert.equal(await found(bareLocked, bareNext, next, newest), next)
  assert.equal(await found(next, newest, bareLocked), next)
  assert.equal(await found('', absent, old, bareNext, bareLocked), bareNext)
  assert.equal(await found(absent, old), null)
})
