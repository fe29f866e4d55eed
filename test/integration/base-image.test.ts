import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { connectEngine, type Engine } from '../../src/adapters/docker/engine/engine.ts'
import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import { buildInContainer } from '../../src/adapters/docker/images/base-image-container.ts'
import { type BaseImageIdentity, readBaseImageRecipe } from '../../src/adapters/docker/images/base-image-rootfs.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { eventually } from '../support/hang.ts'
import { never } from './sandbox-fixture.ts'

// A name that no registry has, so that no image of a user is touched: `debian:SUITE-slim` is what the build begins with.
const SUITE = `longhaul-test-${process.pid}`
const DEBIAN = `debian:${SUITE}-slim`
const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
let engine: Engine
let identity: BaseImageIdentity

before(async () => {
  engine = await connectEngine()
  const cacheDir = join(stackPaths().cacheDir, 'images')
  const { tag } = await ensureBaseImage({ engine, cacheDir, log: () => undefined })
  await engine.docker.getImage(tag).tag({ repo: 'debian', tag: `${SUITE}-slim` })
  const { recipe, ...names } = await readBaseImageRecipe()
  identity = { ...names, archive: `base-${SUITE}`, recipe: { ...recipe, suite: SUITE } }
})

after(async () => {
  rmSync(folder, { recursive: true })
  await engine.docker.getImage(DEBIAN).remove({ force: true })
})

interface Attempt {
  packages?: readonly string[]
  suite?: string
  signal?: AbortSignal
  log?: (line: string) => void
}

function build({ packages = [], suite = SUITE, signal = never, log = () => undefined }: Attempt): Promise<void> {
  const recipe = { ...identity.recipe, suite, packages: [...identity.recipe.packages, ...packages] }
  const archive = join(folder, 'base.tar.gz.new')
  return buildInContainer({ engine, identity: { ...identity, recipe }, archive, log, signal })
}

async function containersLeft(): Promise<number> {
  const listed = await engine.docker.listContainers({ all: true, filters: { name: [identity.archive] } })
  return listed.length
}

test('a user without root gets the base image from a container of Debian’s own image', async () => {
  const lines: string[] = []
  await build({ packages: ['hello'], log: (line) => lines.push(line) })
  const names = execFileSync('tar', ['-tzf', join(folder, 'base.tar.gz.new')], { encoding: 'utf8', maxBuffer: 1e9 })
  for (const path of ['usr/bin/hello', 'usr/bin/git', 'usr/bin/python3', 'testbed/']) {
    assert.ok(names.split('\n').includes(path), path)
  }
  assert.doesNotMatch(names, /^(var\/lib\/apt\/lists\/.*_Packages|usr\/share\/doc\/.+)$/m)
  assert.deepEqual(lines, [
    `base image: installing ${[...identity.recipe.packages, 'hello'].join(', ')} into ${DEBIAN}`,
    'base image: packing',
  ])
  assert.equal(await containersLeft(), 0)
})

test('an image that cannot be pulled, and a package that does not exist, are one message with what helps', async () => {
  const remedies = /docker pull[\s\S]*as root[\s\S]*copy the file[^\n]*base\.tar\.gz$/
  await assert.rejects(build({ suite: `no-${SUITE}` }), (error: Error) => {
    assert.match(error.message, new RegExp(`could not be made. The image debian:no-${SUITE}-slim could not be pulled`))
    assert.match(error.message, remedies)
    return true
  })
  await assert.rejects(build({ packages: ['no-such-package'] }), (error: Error) => {
    assert.match(error.message, /The installation ended with 100:[\s\S]*Unable to locate package no-such-package/)
    assert.match(error.message, remedies)
    return true
  })
  assert.equal(await containersLeft(), 0)
})

test('an interrupted build leaves no container', async () => {
  const interrupt = new AbortController()
  const reason = new Error('SIGINT')
  const ended = build({ signal: interrupt.signal, log: () => setTimeout(() => interrupt.abort(reason), 500) })
  await assert.rejects(ended, (error) => error === reason)
  // The engine may still be removing it.
  await eventually(async () => assert.equal(await containersLeft(), 0))
})
