import assert from 'node:assert/strict'
import { mkdtemp, link, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { useEnvironment } from '../../../../test/support/environment.ts'
import { HANG_MS } from '../../../../test/support/hang.ts'
import { createDiskWatch, type DiskWatch } from './disk-watch.ts'
import type { Engine } from '../engine/engine.ts'

const folder = await mkdtemp(join(tmpdir(), 'disk-watch-'))
after(() => rm(folder, { recursive: true }))

const MIB = 1024 ** 2
const GIB = 1024 ** 3

interface WrittenContainer {
  UpperDir?: string
  limit?: number
  StorageOpt?: object
  Created?: string
}

/** An engine whose containers write into folders of this test; what it was told to kill. */
function engineOf(containers: Record<string, WrittenContainer>) {
  const killed: string[] = []
  const container = (name: string) => ({
    inspect: async () => {
      const { UpperDir, limit, StorageOpt, Created } = containers[name] ?? {}
      return {
        Created,
        State: { Running: false, Pid: 0 },
        GraphDriver: { Data: UpperDir === undefined ? null : { UpperDir } },
        HostConfig: { StorageOpt, Ulimits: limit === undefined ? [] : [{ Name: 'fsize', Soft: limit, Hard: limit }] },
      }
    },
    kill: async () => void killed.push(name),
  })
  return { engine: { docker: { getContainer: container } } as unknown as Engine, killed }
}

async function until(isDone: () => boolean): Promise<void> {
  for (const end = Date.now() + HANG_MS; !isDone(); ) {
    assert.ok(Date.now() < end, 'not within the limit for hangs')
    await sleep(20)
  }
}

const addTo =
  (watch: DiskWatch, { docker }: Engine) =>
  async (name: string): Promise<void> =>
    watch.add(name, await docker.getContainer(name).inspect())

const within = (watch: DiskWatch, name: string): boolean => {
  try {
    watch.requireWithin(name)
    return true
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'Sandbox.DiskLimit')
    return false
  }
}

test('a container that writes past its limit, in bytes or in files, is killed; its neighbours are not', async (t) => {
  const names = ['bytes', 'files', 'honest', 'links']
  const containers = Object.fromEntries(
    names.map((name) => [name, { UpperDir: join(folder, name), limit: name === 'files' ? GIB / 4096 : 4 * MIB }]),
  )
  for (const name of names) await mkdir(join(folder, name))
  const { engine, killed } = engineOf(containers)
  const watch = createDiskWatch({ engine, log: () => undefined, everyMs: 10 })
  t.after(() => watch.dispose())
  const add = addTo(watch, engine)
  for (const name of names) await add(name)

  await writeFile(join(folder, 'honest/a'), Buffer.alloc(3 * MIB, 1))
  // One file under many names is one file.
  await writeFile(join(folder, 'links/a'), Buffer.alloc(3 * MIB, 1))
  for (let i = 0; i < 100; i++) await link(join(folder, 'links/a'), join(folder, `links/a${i}`))
  for (let i = 0; i < 5; i++) await writeFile(join(folder, `bytes/${i}`), Buffer.alloc(MIB, 1))
  // 65,536 files for a gigabyte: 16 for a 4,096th of it.
  for (let i = 0; i < 20; i++) await writeFile(join(folder, `files/${i}`), '')
  await until(() => killed.length === 2)
  assert.deepEqual(killed.toSorted(), ['bytes', 'files'])
  assert.deepEqual(
    names.filter((name) => within(watch, name)),
    ['honest', 'links'],
  )

  await writeFile(join(folder, 'honest/b'), Buffer.alloc(3 * MIB, 1))
  await until(() => killed.length === 3)
  assert.equal(killed[2], 'honest')
  watch.remove('honest')
  assert.ok(within(watch, 'honest'), 'a name is used again by the next placement')
})

test('what the engine counts itself, has no limit or cannot be read is left alone', async (t) => {
  await mkdir(join(folder, 'left'))
  const UpperDir = join(folder, 'left')
  const { engine, killed } = engineOf({
    counted: { UpperDir, limit: 1, StorageOpt: { size: '1G' } },
    free: { UpperDir },
    elsewhere: { UpperDir: join(folder, 'no-such-folder'), limit: 1 },
    other: { limit: 1 },
    seen: { UpperDir, limit: 1 },
  })
  const watch = createDiskWatch({ engine, log: () => undefined, everyMs: 10 })
  t.after(() => watch.dispose())
  const add = addTo(watch, engine)
  for (const name of ['counted', 'free', 'elsewhere', 'other', 'seen']) await add(name)
  await writeFile(join(UpperDir, 'a'), Buffer.alloc(MIB, 1))
  await until(() => killed.length === 1)
  assert.deepEqual(killed, ['seen'])
})

/** The story: an engine that reports no folder and its worker were killed together, and the worker met the sandbox before its new start. */
test('a container whose folder is not known yet is looked at again when it runs', async (t) => {
  await mkdir(join(folder, 'later'))
  const containers: Parameters<typeof engineOf>[0] = { later: { limit: 1 } }
  const { engine, killed } = engineOf(containers)
  const watch = createDiskWatch({ engine, log: () => undefined, everyMs: 10 })
  t.after(() => watch.dispose())
  const add = addTo(watch, engine)
  await add('later')
  assert.equal(watch.knows('later'), false)
  containers['later'] = { limit: 1, UpperDir: join(folder, 'later') }
  await add('later')
  assert.ok(watch.knows('later'))
  await writeFile(join(folder, 'later/a'), Buffer.alloc(MIB, 1))
  await until(() => killed.length === 1)
})

test('a count that fails is repeated', async (t) => {
  const programs = join(folder, 'programs')
  await mkdir(programs)
  await mkdir(join(folder, 'uncounted'))
  const path = process.env['PATH'] ?? ''
  useEnvironment(t)
  await writeFile(join(programs, 'du'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
  process.env['PATH'] = `${programs}:${path}`
  const { engine, killed } = engineOf({ uncounted: { limit: 1, UpperDir: join(folder, 'uncounted') } })
  const said: string[] = []
  const watch = createDiskWatch({ engine, log: (message) => said.push(message), everyMs: 10 })
  t.after(() => watch.dispose())
  await addTo(watch, engine)('uncounted')
  await writeFile(join(folder, 'uncounted/a'), Buffer.alloc(MIB, 1))
  await until(() => said.includes('disk watch: not counted'))
  process.env['PATH'] = path
  await until(() => killed.length === 1)
})

test('a container that is gone is watched no longer, and a new one waits for its first count', async (t) => {
  const containers: Parameters<typeof engineOf>[0] = {}
  for (const name of ['gone', 'new']) {
    await mkdir(join(folder, name))
    containers[name] = { UpperDir: join(folder, name), limit: MIB, Created: new Date().toISOString() }
  }
  const { engine, killed } = engineOf(containers)
  const said: string[] = []
  const watch = createDiskWatch({ engine, log: (message) => said.push(message), everyMs: 10 })
  t.after(() => watch.dispose())
  const add = addTo(watch, engine)
  await add('gone')
  await rm(join(folder, 'gone'), { recursive: true })
  await add('new')
  for (let i = 0; i < 3; i++) await writeFile(join(folder, `new/${i}`), Buffer.alloc(MIB, 1))
  await until(() => killed.length === 1)
  assert.deepEqual(killed, ['new'])
  assert.deepEqual(said, ['disk watch: killed a container that exceeded its limit'])
})
