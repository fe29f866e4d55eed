import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { HANG_MS } from '../support/hang.ts'

const command = join(import.meta.dirname, '../../bin/longhaul.mjs')

let scratch: string

before(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'compile-cache-'))
})

after(() => rm(scratch, { recursive: true, force: true }))

test('a command keeps compiled code in the cache of its user, never in a shared folder', async () => {
  const cache = join(scratch, 'cache')
  const first = await help({ LONGHAUL_CACHE: cache })
  const kept = await readdir(join(cache, 'compiled'), { recursive: true })
  assert.ok(kept.length > 10, `${kept.length} files`)
  assert.equal(await help({ LONGHAUL_CACHE: cache }), first)
  assert.equal(existsSync(join(scratch, 'node-compile-cache')), false)
})

test('the user can choose the folder or disable it', async () => {
  const [chosen, unused] = [join(scratch, 'chosen'), join(scratch, 'unused')]
  await help({ LONGHAUL_CACHE: unused, NODE_COMPILE_CACHE: chosen })
  assert.ok((await readdir(chosen)).length > 0)
  await help({ LONGHAUL_CACHE: unused, NODE_DISABLE_COMPILE_CACHE: '1' })
  assert.equal(existsSync(join(unused, 'compiled')), false)
})

test('a folder that cannot be created costs only time', async () => {
  const file = join(scratch, 'file')
  await writeFile(file, '')
  assert.match(await help({ LONGHAUL_CACHE: file }), /^Usage: longhaul/m)
  // Node's own making of folders never returns there.
  assert.match(await help({ LONGHAUL_CACHE: '/proc/longhaul' }), /^Usage: longhaul/m)
})

async function help(changes: Record<string, string>): Promise<string> {
  const env = { ...process.env, NODE_COMPILE_CACHE: '', TMPDIR: scratch, ...changes }
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [command, '--help'], { env, timeout: HANG_MS })
  assert.equal(stderr, '')
  return stdout
}
