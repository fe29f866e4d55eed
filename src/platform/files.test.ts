import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { errnoOf, makeDirectory, makeDirectorySync } from './files.ts'

let folder: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-make-directory-'))
})
after(() => rm(folder, { recursive: true }))

test('creates missing parents and returns the first new one, and creates none a second time', async () => {
  const path = join(folder, 'a/b/c')
  assert.equal(await makeDirectory(path, { mode: 0o700 }), join(folder, 'a'))
  assert.equal((await stat(join(folder, 'a/b'))).mode & 0o777, 0o700)
  assert.equal(await makeDirectory(path), undefined)
  makeDirectorySync(join(folder, 'sync/b'))
  makeDirectorySync(join(folder, 'sync/b'))
  assert.ok(existsSync(join(folder, 'sync/b')))
})

test('many callers can create the same directory at once', async () => {
  const path = join(folder, 'many/x/y/z')
  await Promise.all(Array.from({ length: 20 }, () => makeDirectory(path)))
  assert.ok(existsSync(path))
})

test('a file in the way, or as a parent, is an error, and a link to a directory is accepted', async () => {
  const file = join(folder, 'file')
  await writeFile(file, '')
  await assert.rejects(makeDirectory(file), (error) => errnoOf(error) === 'EEXIST')
  await assert.rejects(makeDirectory(join(file, 'x/y')), (error) => errnoOf(error) === 'ENOTDIR')
  assert.throws(
    () => makeDirectorySync(join(file, 'x')),
    (error) => errnoOf(error) === 'ENOTDIR',
  )
  await symlink(folder, join(folder, 'link'))
  assert.equal(await makeDirectory(join(folder, 'link')), undefined)
})

test('a file system that allows no new names gives an error, where Node’s own mkdir never returns', async () => {
  for (const path of ['/proc/longhaul', '/proc/longhaul/a/b']) {
    await assert.rejects(makeDirectory(path), (error) => errnoOf(error) === 'ENOENT')
    assert.throws(
      () => makeDirectorySync(path),
      (error) => errnoOf(error) === 'ENOENT',
    )
  }
})

test('no other source file creates parents by Node’s own mkdir', () => {
  const root = new URL('..', import.meta.url)
  const sources = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))
  const found = sources.filter(
    (name) =>
      !name.endsWith('.test.ts') && /mkdir(?:Sync)?\([^;\n]*recursive/.test(readFileSync(new URL(name, root), 'utf8')),
  )
  assert.ok(sources.length > 100)
  assert.deepEqual(found, [])
})
