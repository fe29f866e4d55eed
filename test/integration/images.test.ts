import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { evictImages } from '../../src/adapters/docker/images/evict-images.ts'
import { createImageKeeper, type ImageKeeper } from '../../src/adapters/docker/images/image-keeper.ts'
import { imageExists, pullImage, requireImage } from '../../src/adapters/docker/images/images.ts'
import { checkImages } from '../../src/activities/gate/check-images.ts'
import { createImageFinder } from '../../src/activities/gate/task-images.ts'
import type { Task } from '../../src/contracts/tasks.types.ts'
import { freePort } from '../support/loopback.ts'
import { startTestRegistry, type TestRegistry } from '../support/test-registry.ts'
import { makeTrainingRecipe } from '../support/training-records.ts'
import { codeOf, createSandboxFixture, never, type SandboxFixture } from './sandbox-fixture.ts'

const cacheDir = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
const HOUR_MS = 3_600_000
let fixture: SandboxFixture
let registry: TestRegistry
let keeper: ImageKeeper

before(async () => {
  fixture = await createSandboxFixture('images', { 'm.py': 'x = 1\n' })
  registry = await startTestRegistry()
  keeper = createImageKeeper({ engine: fixture.engine, cacheDir })
})

after(async () => {
  const { docker } = fixture.engine
  const ours = await docker.listImages({ filters: { reference: [registry.reference('*')] } })
  for (const { Id } of ours) await docker.getImage(Id).remove({ force: true })
  await registry.close()
  await fixture.dispose()
  rmSync(cacheDir, { recursive: true })
})

function pull(image: string, signal: AbortSignal = never): Promise<void> {
  return pullImage({ engine: fixture.engine, image, log: () => undefined, signal })
}

function ensure(image: string, signal: AbortSignal = never): Promise<void> {
  return keeper.ensure({ image, make: (stopped) => pull(image, stopped), signal })
}

test('concurrent requests in one process and in three pull an image only once', async () => {
  const { image, digest } = await registry.publish({ name: 'shared', tag: '1', text: 'shared' })
  const child = fileURLToPath(new URL('../support/ensure-image.ts', import.meta.url))
  const elsewhere = Promise.all(
    [1, 2].map(() => promisify(execFile)(process.execPath, [child, cacheDir, image], { env: process.env })),
  )
  await Promise.all([ensure(image), ensure(image), ensure(image)])
  const pulls = (await elsewhere).filter(({ stdout }) => stdout.includes('pulled')).length
  assert.ok(pulls <= 1)
  assert.equal(registry.layersSent(), 1)
  assert.equal(await requireImage({ engine: fixture.engine, image, expectedDigest: digest }), digest)
})

test('the pull continues for the others when the process that pulls is cancelled', async () => {
  const { image } = await registry.publish({ name: 'cancelled', tag: '1', text: 'cancelled' })
  const controller = new AbortController()
  const reason = new Error('cancelled')
  const first = ensure(image, controller.signal)
  const second = ensure(image)
  controller.abort(reason)
  await assert.rejects(first, (error) => error === reason)
  await second
  assert.equal(await imageExists({ engine: fixture.engine, image }), true)
})

test('a missing image is a permanent failure, and an overloaded registry is a retryable one', async () => {
  const nowhere = `${registry.reference('nowhere')}:1`
  await assert.rejects(ensure(nowhere), (error) => codeOf(error) === 'Sandbox.ImageMissing')
  registry.fail(429)
  try {
    await assert.rejects(ensure(nowhere), (error: Error & { retryable?: boolean }) => {
      assert.deepEqual([codeOf(error), error.retryable], ['Sandbox.PullFailed', true])
      return true
    })
  } finally {
    registry.fail(null)
  }
})

/** The engine has answered 200 by then, and says the rest in its progress. */
test('a pull that fails in the middle is an error that may be retried, and the next pull brings the image', async () => {
  const { image } = await registry.publish({ name: 'broken', tag: '1', text: 'broken' })
  for (const [layers, message] of [
    [{ status: 401, body: Buffer.from('{"errors":[{"code":"UNAUTHORIZED"}]}') }, /refuses the image: .*docker login/],
    [{ status: 404, body: Buffer.from('{"errors":[{"code":"BLOB_UNKNOWN"}]}') }, /damaged or incomplete layers/],
  ] as const) {
    registry.spoil(layers)
    await assert.rejects(ensure(image), { code: 'Sandbox.PullFailed', retryable: true, message })
    assert.equal(await imageExists({ engine: fixture.engine, image }), false)
  }
  registry.spoil(null)
  await ensure(image)
  assert.equal(await imageExists({ engine: fixture.engine, image }), true)
})

test('a pull that the registry refuses says what to change', async () => {
  const refused = `${registry.reference('refused')}:1`
  const error = (code: string) => JSON.stringify({ errors: [{ code, message: '' }] })
  for (const [status, body, message] of [
    [401, error('UNAUTHORIZED'), /refuses the image: .*docker login, then docker pull/],
    [403, error('DENIED'), /refuses the image: .*docker login, then docker pull/],
    [429, error('TOOMANYREQUESTS'), /limits pulls: .*registry-mirrors/],
    [500, 'oops', /registry itself fails/],
    [200, '<!doctype html>', /no registry: .*login page/],
  ] as const) {
    registry.fail(status, body, status === 401 ? { 'www-authenticate': 'Basic realm="x"' } : {})
    await assert.rejects(ensure(refused), { code: 'Sandbox.PullFailed', message }).finally(() => registry.fail(null))
  }
  const nobody = `127.0.0.1:${await freePort()}/nobody:1`
  await assert.rejects(ensure(nobody), { code: 'Sandbox.PullFailed', message: /does not reach the registry/ })
})

/** A suite of tasks with these images, looked for before its gate. */
function lookFor(images: string[], refused: 'fail' | 'exclude' = 'fail') {
  const made = makeTrainingRecipe()
  return checkImages(
    {
      recipe: { ...made, data: { ...made.data, gate: { repeats: 1, refused, width: null } } },
      suites: async (hash) => ({ hash, name: hash, source: { kind: 'rows', path: '', limit: null }, taskIds: images }),
      tasks: async ({ taskId }) => ({ image: taskId, synthetic: null }) as Task,
      finder: createImageFinder({ engine: fixture.engine }),
      hostId: 'here',
    },
    ['suite'],
    never,
  )
}

test('before a gate: finds images of engine and registry without a pull, and refuses a run with a missing one', async () => {
  const { image, digest } = await registry.publish({ name: 'published', tag: '1', text: 'published' })
  const pinned = `${registry.reference('published')}@${digest}`
  const there = [fixture.image, image, pinned]
  assert.deepEqual(await lookFor(there), { images: 3, lacking: 2, asked: 2, missing: 0, unknown: 0 })
  assert.equal(await imageExists({ engine: fixture.engine, image }), false, 'nothing was pulled')

  const otherTag = `${registry.reference('published')}:2`
  const otherName = `${registry.reference('unpublished')}:1`
  const otherBytes = `${registry.reference('published')}@sha256:${'0'.repeat(64)}`
  for (const gone of [otherTag, otherName, otherBytes, registry.reference('untagged')]) {
    await assert.rejects(lookFor([...there, gone]), (error: Error) => {
      assert.equal(codeOf(error), 'Sandbox.ImageMissing')
      assert.match(error.message, /^1 of the 4 images of suite are missing/)
      assert.ok(error.message.includes(gone))
      return true
    })
    await lookFor([...there, gone], 'exclude')
    await assert.rejects(lookFor([gone], 'exclude'), (error) => codeOf(error) === 'Sandbox.ImageMissing')
  }
})

test('before a gate: a failing registry proves nothing, and an image in the engine needs no registry', async () => {
  const gone = `${registry.reference('nowhere')}:1`
  for (const status of [401, 403, 429, 500, 503]) {
    registry.fail(status)
    try {
      const { missing, unknown } = await lookFor([gone, fixture.image])
      assert.deepEqual([missing, unknown], [0, 1], `registry answers ${status}`)
    } finally {
      registry.fail(null)
    }
  }
  const closed = await startTestRegistry()
  await closed.close()
  const nobody = `${closed.reference('nowhere')}:1`
  const silent = { images: 2, lacking: 2, asked: 2, missing: 0, unknown: 2 }
  assert.deepEqual(await lookFor([nobody, 'registry.invalid/x:1']), silent)
})

test('a tag that moved after the gate is refused when a sandbox opens and when a patch is graded', async () => {
  const gated = await registry.publish({ name: 'moved', tag: '1', text: 'before' })
  const moved = await registry.publish({ name: 'moved', tag: '1', text: 'after' })
  await ensure(moved.image)
  const { engine, host } = fixture
  assert.equal(await requireImage({ engine, image: moved.image, expectedDigest: moved.digest }), moved.digest)
  const mismatch = (error: unknown): boolean => codeOf(error) === 'Sandbox.ImageMismatch'
  const changes = { image: moved.image, expectedDigest: gated.digest }
  await assert.rejects(host.open(fixture.openInput(changes), never), mismatch)
  const graded = host.grade(
    {
      ...fixture.openInput(changes),
      role: 'grader',
      patch: new Uint8Array(),
      applyCommands: [],
      evalScript: 'true',
      timeoutMs: 10_000,
    },
    never,
  )
  await assert.rejects(graded, mismatch)
})

test('a digest reference names exact bytes, and an image for another architecture is refused', async () => {
  const { engine } = fixture
  const { digest } = await registry.publish({ name: 'pinned', tag: '1', text: 'pinned' })
  const pinned = `${registry.reference('pinned')}@${digest}`
  await ensure(pinned)
  assert.equal(await requireImage({ engine, image: pinned }), digest)

  const other = await registry.publish({ name: 'other', tag: '1', text: 'other', architecture: 'arm64' })
  // An engine may refuse it already while it pulls.
  await ensure(other.image).catch((error: unknown) => assert.equal(codeOf(error), 'Sandbox.ImageMissing'))
  await assert.rejects(requireImage({ engine, image: other.image }), (error) =>
    ['Sandbox.ImageMismatch', 'Sandbox.ImageMissing'].includes(String(codeOf(error))),
  )
})

test('an image that was built on this host is not refused because another host gated it', async () => {
  const { engine, image } = fixture
  assert.match(await requireImage({ engine, image, expectedDigest: `sha256:${'0'.repeat(64)}` }), /^sha256:/)
})

test('a full disk removes images by last use, except those in use, recently used or of others', async () => {
  const { engine } = fixture
  const names = ['oldest', 'held', 'older', 'old', 'recent'] as const
  const images = new Map<string, string>()
  for (const name of [...names, 'foreign']) {
    const { image } = await registry.publish({ name, tag: '1', text: name })
    images.set(name, image)
    if (name === 'foreign') await pull(image)
    else await ensure(image)
  }
  const imageOf = (name: string): string => images.get(name) ?? ''
  const uses = await keeper.uses()
  const now = Date.now()
  for (const [age, name] of ['old', 'older', 'held', 'oldest'].entries()) {
    await uses.note({ image: imageOf(name), usedAtMs: now - (age + 1) * HOUR_MS })
  }
  const holder = await engine.docker.createContainer({ Image: imageOf('held'), Cmd: ['x'] })
  try {
    // Room appears after two removals; a new keeper reads what an earlier one noted.
    let looks = 0
    const freeBytes = async (): Promise<number> => (looks++ < 3 ? 0 : 100)
    const later = createImageKeeper({ engine, cacheDir })
    const evict = { engine, keeper: later, minFreeBytes: 50, now, signal: never }
    assert.deepEqual(await evictImages({ ...evict, freeBytes: async () => 50 }), [])
    assert.deepEqual(await evictImages({ ...evict, freeBytes: async () => null }), [])
    assert.deepEqual(await evictImages({ ...evict, freeBytes }), [imageOf('oldest'), imageOf('older')])
    assert.deepEqual(await evictImages({ ...evict, freeBytes: async () => 0 }), [imageOf('old')])
    const left = await Promise.all(
      [...images].map(async ([name, image]) => [name, await imageExists({ engine, image })]),
    )
    assert.deepEqual(Object.fromEntries(left), {
      oldest: false,
      held: true,
      older: false,
      old: false,
      recent: true,
      foreign: true,
    })
  } finally {
    await holder.remove({ force: true })
  }
})
