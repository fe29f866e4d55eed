/** The packages of one checkout serve the next: kept and restored in fresh folders, by the script that bootstrap uses. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { HANG_MS } from '../support/hang.ts'

const SCRIPT = fileURLToPath(new URL('../../scripts/node-modules-cache.mjs', import.meta.url))
const execute = promisify(execFile)

let folder: string
let cache: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-packages-'))
  cache = join(folder, 'cache')
  await put('first/node_modules/alpha/index.js', 'alpha')
  await put('first/node_modules/@scope/beta/lib/deep.js', 'beta')
  await put('first/node_modules/.package-lock.json', '{}')
  await mkdir(join(folder, 'first/node_modules/.bin'))
  await symlink('../alpha/index.js', join(folder, 'first/node_modules/.bin/alpha'))
})

after(() => rm(folder, { recursive: true, force: true }))

async function put(path: string, text: string): Promise<void> {
  const file = join(folder, path)
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}

async function call(name: 'keepNodeModules' | 'restoreNodeModules', checkout: string, key: string): Promise<unknown> {
  const argument = JSON.stringify({ root: join(folder, checkout), key, env: { LONGHAUL_CACHE: cache } })
  const code = `import { ${name} } from ${JSON.stringify(SCRIPT)}
    console.log(JSON.stringify(${name}(${argument}) ?? null))`
  const { stdout } = await execute(process.execPath, ['--input-type=module', '-e', code], { timeout: HANG_MS })
  return JSON.parse(stdout)
}

test('cached packages are complete in another checkout, with links, and replace its packages', async () => {
  await call('keepNodeModules', 'first', 'lock-a')
  await put('second/node_modules/half-installed/index.js', 'rubbish')
  assert.equal(await call('restoreNodeModules', 'second', 'lock-a'), true)
  const restored = join(folder, 'second/node_modules')
  assert.deepEqual((await readdir(restored)).toSorted(), ['.bin', '.package-lock.json', '@scope', 'alpha'])
  assert.equal(await readFile(join(restored, '@scope/beta/lib/deep.js'), 'utf8'), 'beta')
  assert.equal(await readlink(join(restored, '.bin/alpha')), '../alpha/index.js')
})

test('the cache survives the removal of its source checkout and keeps no partial copy', async () => {
  await rm(join(folder, 'first'), { recursive: true })
  assert.equal(await call('restoreNodeModules', 'third', 'lock-a'), true)
  assert.equal(await readFile(join(folder, 'third/node_modules/alpha/index.js'), 'utf8'), 'alpha')
  assert.deepEqual(await readdir(join(cache, 'node_modules')), ['lock-a'])
})

test("writing npm's own record in one checkout changes no other checkout", async () => {
  await put('third/node_modules/.package-lock.json', 'of the third')
  assert.equal(await call('restoreNodeModules', 'fifth', 'lock-a'), true)
  assert.equal(await readFile(join(folder, 'fifth/node_modules/.package-lock.json'), 'utf8'), '{}')
})

test('another lock file finds no entry and changes nothing', async () => {
  await put('fourth/node_modules/own/index.js', 'own')
  assert.equal(await call('restoreNodeModules', 'fourth', 'lock-b'), false)
  assert.equal(await readFile(join(folder, 'fourth/node_modules/own/index.js'), 'utf8'), 'own')
})

test('keeps the three lock files used last', async () => {
  for (const key of ['lock-c', 'lock-d', 'lock-e']) await call('keepNodeModules', 'third', key)
  assert.deepEqual((await readdir(join(cache, 'node_modules'))).toSorted(), ['lock-c', 'lock-d', 'lock-e'])
})

test('a cache that cannot be written costs nothing', async () => {
  await rm(cache, { recursive: true })
  await writeFile(cache, 'a file where the folder should be')
  await call('keepNodeModules', 'third', 'lock-a')
  assert.equal(await call('restoreNodeModules', 'third', 'lock-a'), false)
  assert.ok((await lstat(join(folder, 'third/node_modules/alpha'))).isDirectory())
})
