/** A checkout in a folder whose name an address of a module spells otherwise: with a space, a percent sign and an umlaut. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
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

/** As in the image of a sandbox worker, which has no compiler: pods got a program that was compiled, so there they got none. */
test('a program that is shipped there is given to containers and pods without a compiler', async () => {
  const name = await node(
    '--input-type=module',
    '--eval',
    `const { builtRunnerName } = await import('./src/adapters/docker/sandbox/runner-volume.ts')
    console.log(await builtRunnerName())`,
  )
  const built = join(checkout, 'infra/built')
  await mkdir(built, { recursive: true })
  await writeFile(join(built, name.trim()), 'shipped')
  const give = `
    process.env.PATH = ''
    const { runnerProgram } = await import('./src/adapters/docker/sandbox/runner-volume.ts')
    const { ensureRunnerMap } = await import('./src/adapters/kubernetes/runner-map.ts')
    const { ClusterRefusal } = await import('./src/adapters/kubernetes/cluster-errors.ts')
    let made = null
    const ask = async ({ method = 'GET', body }) => {
      if (method === 'POST') return (made = body)
      if (made === null) throw new ClusterRefusal(404, '{}')
      return made
    }
    await ensureRunnerMap({ namespace: 'pods', pathOf: (...words) => words.join('/'), ask })
    console.log(String(await runnerProgram()), atob(made.binaryData.runner))`
  assert.equal(await node('--input-type=module', '--eval', give), 'shipped shipped\n')
  await rm(built, { recursive: true })
})
