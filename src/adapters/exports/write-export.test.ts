import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { sha256Hex } from '../../platform/hash.ts'
import { type ExportSink, writeExportDirectory, writeExportFile } from './write-export.ts'

const say =
  (text: string) =>
  (sink: ExportSink): Promise<void> =>
    sink.write(text)

describe('exported files', () => {
  let root: string
  let path: string
  let number = 0
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'longhaul-export-'))
  })
  beforeEach(async () => {
    number += 1
    await mkdir(join(root, String(number)))
    path = join(root, String(number), 'out')
  })
  after(() => rm(root, { recursive: true, force: true }))
  const beside = (): Promise<string[]> => readdir(join(root, String(number)))

  test('writes text and bytes in order, counted and hashed', async () => {
    const written = await writeExportFile({ path, force: false }, async (sink) => {
      await sink.write('a')
      await sink.write(Buffer.from('b'))
      await sink.write('ü')
    })
    assert.equal(await readFile(path, 'utf8'), 'abü')
    assert.deepEqual(written, { bytes: 4, sha256: sha256Hex('abü') })
    assert.deepEqual(await beside(), ['out'])
  })

  test('a failed or interrupted writer leaves nothing behind and keeps an older file', async () => {
    const breaks = async (sink: ExportSink): Promise<void> => {
      await sink.write('half')
      throw new Error('interrupted')
    }
    await assert.rejects(writeExportFile({ path, force: false }, breaks), /interrupted/)
    assert.deepEqual(await beside(), [])
    await writeFile(path, 'old')
    await assert.rejects(writeExportFile({ path, force: true }, breaks), /interrupted/)
    assert.equal(await readFile(path, 'utf8'), 'old')
    assert.deepEqual(await beside(), ['out'])
  })

  test('refuses an existing file before it reads anything, and replaces it with force', async () => {
    await writeFile(path, 'old')
    let called = false
    const write = (sink: ExportSink): Promise<void> => {
      called = true
      return sink.write('new')
    }
    await assert.rejects(writeExportFile({ path, force: false }, write), /exists; --force replaces it/)
    assert.deepEqual([called, await readFile(path, 'utf8')], [false, 'old'])
    await writeExportFile({ path, force: true }, write)
    assert.equal(await readFile(path, 'utf8'), 'new')
  })

  test('refuses the later of two concurrent exports to one path and keeps the first file', async () => {
    const first = Promise.withResolvers<void>()
    const later = writeExportFile({ path, force: false }, async (sink) => {
      await first.promise
      await sink.write('later')
    })
    const refused = assert.rejects(later, /exists; --force replaces it/)
    await writeExportFile({ path, force: false }, say('first'))
    first.resolve()
    await refused
    assert.equal(await readFile(path, 'utf8'), 'first')
    assert.deepEqual(await beside(), ['out'])
  })

  test('never replaces links, devices or directories, even with force', async () => {
    await symlink('/dev/null', path)
    for (const taken of [path, '/dev/null', root]) {
      await assert.rejects(writeExportFile({ path: taken, force: true }, say('x')), /not a regular file/)
    }
    assert.deepEqual(await beside(), ['out'])
  })

  test('a directory appears complete with its mark, and force replaces one that an export made', async () => {
    const fill = (names: string[]) =>
      writeExportDirectory({ path, force: true }, async (directory) => {
        for (const name of names) await directory.write(name, say(name))
        return { files: names.length }
      })
    const first = await fill(['a/b.json', 'c.json'])
    assert.deepEqual((await readdir(path)).toSorted(), ['SHA256SUMS', 'a', 'c.json', 'export.json'])
    const sums = `${sha256Hex('a/b.json')}  a/b.json\n${sha256Hex('c.json')}  c.json\n`
    assert.equal(await readFile(join(path, 'SHA256SUMS'), 'utf8'), sums)
    assert.deepEqual(first, { files: 2, bytes: 14, sha256: sha256Hex(sums) })
    await fill(['d.json'])
    assert.deepEqual((await readdir(path)).toSorted(), ['SHA256SUMS', 'd.json', 'export.json'])
    assert.deepEqual(await beside(), ['out'])
    await assert.rejects(
      writeExportDirectory({ path, force: false }, async () => ({})),
      /exists; --force replaces it/,
    )
  })

  test('never replaces a directory with other content, even with force, but fills an empty one', async () => {
    await mkdir(path)
    await writeExportDirectory({ path, force: false }, async () => ({ empty: true }))
    assert.deepEqual((await readdir(path)).toSorted(), ['SHA256SUMS', 'export.json'])
    const home = join(root, String(number), 'home')
    await mkdir(home)
    await writeFile(join(home, 'thesis.tex'), 'years')
    await assert.rejects(
      writeExportDirectory({ path: home, force: true }, async () => ({})),
      /was not made by an export/,
    )
    assert.deepEqual(await readdir(home), ['thesis.tex'])
  })
})
