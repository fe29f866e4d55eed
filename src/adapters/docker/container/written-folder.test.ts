import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { access, mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

import type { Engine } from '../engine/engine.ts'
import { flattenWrittenFolder } from './written-folder.ts'

const folder = await mkdtemp(join(tmpdir(), 'written-'))
// The library of Node removes no path longer than 4,096 bytes.
after(() => void execFileSync('rm', ['-rf', folder]))

/** Levels with names of one letter, so that a path still reaches them. */
function makeDeep(name: string, levels: number): string {
  const top = join(folder, name)
  mkdirSync(join(top, ...Array<string>(levels).fill('d')), { recursive: true })
  writeFileSync(join(top, 'kept'), '')
  writeFileSync(join(top, ...Array<string>(levels).fill('d'), 'leaf'), '')
  return top
}

/** A container that runs until it is killed, and what it was told. */
function engineOf(directory: string) {
  const told: string[] = []
  let isRunning = true
  const container = {
    inspect: async () => ({ State: { Running: isRunning }, GraphDriver: { Data: { UpperDir: directory } } }),
    kill: async () => {
      told.push('kill')
      isRunning = false
    },
  }
  return { engine: { docker: { getContainer: () => container } } as unknown as Engine, told }
}

test('folders deeper than an engine can remove: the container is ended, they are taken away, the rest stays', async () => {
  const directory = makeDeep('deep', 700)
  const { engine, told } = engineOf(directory)
  await flattenWrittenFolder(engine, 'a')
  assert.deepEqual(told, ['kill'])
  assert.deepEqual((await readdir(directory)).toSorted(), ['d', 'kept'])
  await access(join(directory, ...Array<string>(400).fill('d')))
  await assert.rejects(access(join(directory, ...Array<string>(500).fill('d'))), { code: 'ENOENT' })
})

test('deep folders beside many others, and with names that no path reaches, are taken away', async () => {
  const wide = makeDeep('wide', 700)
  for (let i = 0; i < 600; i++) mkdirSync(join(wide, `beside-${i}`))
  const long = join(folder, 'long')
  mkdirSync(long)
  const nest = 'import os\nfor _ in range(700): os.mkdir("n" * 200); os.chdir("n" * 200)'
  execFileSync('python3', ['-c', nest], { cwd: long })
  for (const directory of [wide, long]) {
    const { engine, told } = engineOf(directory)
    await flattenWrittenFolder(engine, 'a')
    assert.deepEqual(told, ['kill'])
    assert.equal(execFileSync('find', [directory, '-mindepth', '500']).length, 0)
  }
})

test('honest folders, and an engine of another machine: the container is left alone', async () => {
  const directory = makeDeep('honest', 100)
  for (const place of [directory, join(folder, 'no-such-folder')]) {
    const { engine, told } = engineOf(place)
    await flattenWrittenFolder(engine, 'a')
    assert.deepEqual(told, [])
  }
  await access(join(directory, ...Array<string>(100).fill('d'), 'leaf'))
})

// The story: an agent wrote half a million files into one folder, and to list them blocked the worker for four seconds.
test('a folder of very many files is never held as a whole', async () => {
  const directory = join(folder, 'files')
  mkdirSync(directory)
  const fill = 'import os\nfor i in range(60_000): os.mknod("n" * 200 + str(i))'
  execFileSync('python3', ['-c', fill], { cwd: directory })
  const beforeKiB = process.resourceUsage().maxRSS
  const { engine, told } = engineOf(directory)
  await flattenWrittenFolder(engine, 'a')
  assert.deepEqual(told, [])
  const grownKiB = process.resourceUsage().maxRSS - beforeKiB
  assert.ok(grownKiB < 16 * 1024, `${grownKiB} KiB`)
})
