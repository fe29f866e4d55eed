/** A checkout in a folder whose name an address of a module spells otherwise: with a space, a percent sign and an umlaut. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { HANG_MS } from '../support/hang.ts'

const REPOSITORY = join(import.meta.dirname, '..', '..')
const LEFT_OUT = new Set(['.git', 'node_modules', 'test', 'bench', 'docs', 'out'])

let scratch: string
let checkout: string

before(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'odd-folder-'))
  checkout = join(scratch, 'a 100%25 odd höuse')
  for (const name of await readdir(REPOSITORY)) {
    if (!LEFT_OUT.has(name)) await cp(join(REPOSITORY, name), join(checkout, name), { recursive: true })
  }
  await symlink(join(REPOSITORY, 'node_modules'), join(checkout, 'node_modules'))
})

after(() => rm(scratch, { recursive: true, force: true }))

async function node(...args: string[]): Promise<string> {
  const env = { ...process.env, LONGHAUL_CACHE: join(scratch, 'cache'), LONGHAUL_HOME: join(scratch, 'home') }
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: checkout, env, timeout: HANG_MS })
  return stdout
}

test('the command line reads its recipes and schemas there', async () => {
  assert.match(await node('bin/longhaul.mjs', 'init', join(scratch, 'a new "project"')), /longhaul\.yaml|recipe/)
})

test('the program of sandboxes is compiled there', async () => {
  const compile = `
    const { compileRunner } = await import('./src/adapters/docker/sandbox/runner-volume.ts')
    console.log((await compileRunner()).subarray(1, 4).toString())`
  assert.equal(await node('--input-type=module', '--eval', compile), 'ELF\n')
})
