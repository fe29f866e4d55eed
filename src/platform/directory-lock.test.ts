import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../../test/support/hang.ts'
import { isAbandonedLock, tryDirectoryLock, withDirectoryLock } from './directory-lock.ts'
import { thisProcessSpace } from './processes.ts'

test('callers of one process take turns and leave no file', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-lock-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  let inside = 0
  const seen: number[] = []
  const work = async (): Promise<void> => {
    inside += 1
    seen.push(inside)
    await sleep(5)
    inside -= 1
  }
  await Promise.all(Array.from({ length: 6 }, () => withDirectoryLock({ path: join(folder, 'image.lock') }, work)))
  assert.deepEqual(seen, [1, 1, 1, 1, 1, 1])
  assert.deepEqual(await readdir(folder), [])
})

test('releasing a lock neither fails nor removes it when its next holder has already taken it', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-lock-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'image.lock')
  const take = () => withDirectoryLock({ path }, async () => undefined)
  // Begun at every distance from the release of the one before.
  for (let round = 0; round < 400; round += 1) {
    const first = take()
    await sleep((round % 40) / 20)
    await Promise.all([first, take()])
  }
  assert.deepEqual(await readdir(folder), [])
})

async function newPath(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-lock-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'image.lock')
}

/** As a process of another machine leaves it, in a home that machines share. */
async function lockElsewhere(path: string): Promise<void> {
  await mkdir(path)
  const space = { host: 'another-machine', bootId: 'of that one', pidNamespace: 'pid:[1]' }
  // No process here has this id, or it started at another time.
  await writeFile(join(path, 'holder'), `${process.pid} 1 x ${JSON.stringify(space)}`)
}

async function age(path: string, ms: number): Promise<void> {
  const then = new Date(Date.now() - ms)
  await utimes(path, then, then)
}

const isFree = (path: string): Promise<boolean> =>
  withDirectoryLock({ path, timeoutMs: 100 }, async () => true).catch(() => false)

test('a lock of another machine is kept until its holder has been silent for two minutes', async (t) => {
  const path = await newPath(t)
  await lockElsewhere(path)
  assert.equal(await isFree(path), false)
  await age(join(path, 'holder'), 10 * 60_000)
  await writeFile(join(path, 'beat'), '.')
  assert.equal(await isFree(path), false, 'it gives signs of life')
  assert.equal(await isAbandonedLock(path), false)
  await age(join(path, 'beat'), 121_000)
  assert.equal(await isFree(path), true)
})

test('the error for a lock of another machine names that machine', async (t) => {
  const path = await newPath(t)
  await lockElsewhere(path)
  await assert.rejects(
    withDirectoryLock({ path, timeoutMs: 0 }, async () => undefined),
    { code: 'Stack.SetupFailed', message: /another-machine/ },
  )
})

test('a lock is taken at once that is of an earlier boot, of a dead holder of an earlier version, or was not written whole', async (t) => {
  const path = await newPath(t)
  const earlier = JSON.stringify({ ...thisProcessSpace(), bootId: 'earlier', pidNamespace: 'other' })
  const renamed = JSON.stringify({ ...thisProcessSpace(), host: 'the name in another network' })
  for (const holder of [
    `${process.pid} 1 x ${earlier}`,
    `${process.pid} 1 x ${renamed}`,
    `${process.pid} 1`,
    '',
    '\0\0\0',
    `${process.pid} 1 x {"ho`,
  ]) {
    await mkdir(path)
    await writeFile(join(path, 'holder'), holder)
    assert.notEqual((await tryDirectoryLock(path)) ?? (await tryDirectoryLock(path)), null, holder)
    await rm(path, { recursive: true })
  }
})

test('a holder gives signs of life, and its release leaves the lock of whoever has replaced it', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const path = await newPath(t)
  const release = await tryDirectoryLock(path)
  t.mock.timers.tick(15_000)
  await eventually(() => access(join(path, 'beat')))
  await rm(path, { recursive: true })
  await lockElsewhere(path)
  await release?.()
  assert.match(await readFile(join(path, 'holder'), 'utf8'), /another-machine/)
})

const NAMESPACE = [
  ...(process.getuid?.() === 0 ? [] : ['--user', '--map-root-user']),
  '--pid',
  '--fork',
  '--mount-proc',
]
const withoutNamespaces =
  spawnSync('unshare', [...NAMESPACE, 'true']).status === 0 ? false : 'needs unshare and leave to make namespaces'

test('a process with ids of its own, as in a container, keeps its lock', { skip: withoutNamespaces }, async (t) => {
  const path = await newPath(t)
  const script = `import { tryDirectoryLock } from ${JSON.stringify(join(import.meta.dirname, 'directory-lock.ts'))}
    console.log((await tryDirectoryLock(${JSON.stringify(path)})) !== null)
    setInterval(() => undefined, 1000)`
  const args = [...NAMESPACE, '--kill-child', process.execPath, '--input-type=module', '-e', script]
  const child = spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(async () => {
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  const [said] = (await once(child.stdout, 'data')) as [Buffer]
  assert.equal(said.toString(), 'true\n')
  assert.equal(await isFree(path), false)
})
