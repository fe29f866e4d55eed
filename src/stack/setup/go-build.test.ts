import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { buildGoPrograms, isOlder } from './go-build.ts'

const folder = await mkdtemp(join(tmpdir(), 'longhaul-go-build-'))
after(() => rm(folder, { recursive: true }))
const context = { log: () => undefined, saw: () => undefined, signal: new AbortController().signal }
const common = { what: 'the programs', module: folder, context, niceness: 15 }

/** Stands for the compiler: writes what the arguments after `-o` name. */
async function compiler(name: string, end: string): Promise<string> {
  const path = join(folder, name)
  const write = `while [ "$1" != -o ]; do shift; done
target=$2; shift 2
case $target in */) for command; do echo "$CGO_ENABLED" >"$target\${command##*/}"; done ;; *) echo "$CGO_ENABLED" >"$target" ;; esac`
  await writeFile(path, `#!/bin/sh\n${write}\n${end}\n`)
  await chmod(path, 0o700)
  return path
}

test('builds several programs into one folder, together with its completion', async () => {
  const go = await compiler('go', '')
  const target = join(folder, 'several')
  const complete = (at: string) => symlink('one', join(at, 'other'))
  await buildGoPrograms({ ...common, go, target, commands: ['./one', 'a.b/two'], env: { CGO_ENABLED: '0' }, complete })
  assert.deepEqual((await readdir(target)).toSorted(), ['one', 'other', 'two'])
  // What is there is not built again.
  await buildGoPrograms({ ...common, go: '/nowhere/go', target, commands: ['./one', 'a.b/two'] })
})

test('a failed build leaves nothing under the name and reports how it ended', async () => {
  const go = await compiler('failing-go', 'echo half-way >&2; exit 1')
  const target = join(folder, 'failed')
  const build = buildGoPrograms({ ...common, go, target, commands: ['./one'] })
  await assert.rejects(build, {
    code: 'Stack.SetupFailed',
    message: /Building the programs.*ended with 1\n\s*half-way/,
  })
  assert.deepEqual([existsSync(target), existsSync(`${target}.new`)], [false, false])
})

test('leaves no folder when the completion of the programs fails', async () => {
  const go = await compiler('go', '')
  const target = join(folder, 'incomplete')
  const complete = () => Promise.reject(new Error('no room'))
  await assert.rejects(buildGoPrograms({ ...common, go, target, commands: ['./one', './two'], complete }), /no room/)
  assert.equal(existsSync(target), false)
})

test('compares Go versions as numbers, with or without a prefix', () => {
  assert.equal(isOlder('go1.26.4', '1.26.4'), false)
  assert.equal(isOlder('go1.26.10', '1.26.4'), false)
  assert.equal(isOlder('go1.27', '1.26.4'), false)
  assert.equal(isOlder('go1.26.3', '1.26.4'), true)
  assert.equal(isOlder('go1.9.7', '1.26.4'), true)
})
