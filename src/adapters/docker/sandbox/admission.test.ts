import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { type Admission, createAdmission, type Held, type Resources } from './admission.ts'

/** The paper's request, on a host of four processors and eight GiB. */
const PAPER: Resources = { cpus: 0.5, memoryMiB: 2048 }
const CAPACITY: Resources = { cpus: 4, memoryMiB: 8192 }
const never = new AbortController().signal

interface World {
  admission: Admission
  /** What the engine knows. */
  alive: Held[]
  waits: string[]
  open(key: string, request?: Resources, signal?: AbortSignal): Promise<{ name: string }>
}

function world({ capacity = CAPACITY, alive = [] as Held[] } = {}): World {
  const waits: string[] = []
  const admission = createAdmission({ capacity, list: () => Promise.resolve([...alive]), now: () => 0 })
  return {
    admission,
    alive,
    waits,
    open: (key, request = PAPER, signal = never) =>
      admission.admit({
        key,
        request,
        signal,
        open: () => Promise.resolve({ name: `container of ${key}` }),
        whileWaiting: (wait, why) => {
          waits.push(why)
          return wait()
        },
      }),
  }
}

/** Whether the promise settles without anything else happening. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending')
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
  return (await Promise.race([promise, Promise.resolve(pending)])) === pending
}

test('admits sandboxes while their requests fit, and the next one waits until one is released', async () => {
  const { open, admission, waits } = world()
  for (const key of ['a', 'b', 'c', 'd']) await open(key)
  const fifth = open('e')
  assert.equal(await isPending(fifth), true)
  assert.deepEqual(waits, ['a place for 0.5 CPU and 2 GiB: 4 sandboxes occupy this host’s 4 CPU and 8 GiB'])
  admission.give('container of b')
  assert.deepEqual(await fifth, { name: 'container of e' })
})

test('counts processors like memory, in whole and in fractions', async () => {
  const { open } = world({ capacity: { cpus: 4, memoryMiB: 1_000_000 } })
  // 40 × 0.1 is 4, although the floating-point sum differs.
  for (let index = 0; index < 40; index++) await open(`e${index}`, { cpus: 0.1, memoryMiB: 1 })
  assert.equal(await isPending(open('one more', { cpus: 0.1, memoryMiB: 1 })), true)
})

test('a small sandbox does not overtake a waiting large one', async () => {
  const { open, admission } = world()
  for (const key of ['a', 'b', 'c']) await open(key)
  const large = open('large', { cpus: 1, memoryMiB: 4096 })
  const small = open('small')
  assert.deepEqual([await isPending(large), await isPending(small)], [true, true])
  admission.give('container of a')
  assert.deepEqual([await isPending(large), await isPending(small)], [false, true])
  admission.give('container of b')
  await small
})

test('admits a request larger than the host alone', async () => {
  const { open, admission } = world()
  await open('a')
  const huge = open('huge', { cpus: 64, memoryMiB: 1_000_000 })
  assert.equal(await isPending(huge), true)
  admission.give('container of a')
  await huge
  assert.equal(await isPending(open('b')), true)
})

test('a failed opening releases its place, and a repeated one has one place', async () => {
  const { admission, open } = world({ capacity: PAPER })
  const failing = admission.admit({
    key: 'a',
    request: PAPER,
    signal: never,
    open: () => Promise.reject(new Error('no container')),
    whileWaiting: (wait) => wait(),
  })
  await assert.rejects(failing, /no container/)
  await open('b')
  await open('b')
  const next = open('c')
  assert.equal(await isPending(next), true)
  admission.give('container of b')
  await next
})

test('a cancelled wait throws its own reason, and the next ones move up', async () => {
  const { open, admission } = world({ capacity: { cpus: 1, memoryMiB: 2048 } })
  await open('a', { cpus: 0.5, memoryMiB: 1024 })
  const cancel = new AbortController()
  const large = open('large', { cpus: 1, memoryMiB: 2048 }, cancel.signal)
  const small = open('small', { cpus: 0.5, memoryMiB: 1024 })
  assert.equal(await isPending(small), true)
  cancel.abort(new Error('the run was stopped'))
  await assert.rejects(large, /the run was stopped/)
  assert.deepEqual(await small, { name: 'container of small' })
  assert.equal(await isPending(open('b', { cpus: 0.5, memoryMiB: 1024 })), true)
  admission.dispose()
})

test('a restarted worker counts running sandboxes and continues an opening that it finds', async () => {
  const alive = ['a', 'b', 'c', 'd'].map((key) => ({ key, request: PAPER, name: `container of ${key}` }))
  const { open, admission } = world({ alive })
  await open('c')
  const fifth = open('e')
  assert.equal(await isPending(fifth), true)
  admission.give('container of a')
  await fifth
})

test('notices a sandbox that ended by its lease while another one waits', async () => {
  mock.timers.enable({ apis: ['setInterval'] })
  try {
    const alive = [{ key: 'a', request: PAPER, name: 'container of a' }]
    const { open } = world({ capacity: PAPER, alive })
    const second = open('b')
    assert.equal(await isPending(second), true)
    mock.timers.tick(5_000)
    assert.equal(await isPending(second), true, 'it is still alive')
    alive.length = 0
    mock.timers.tick(5_000)
    assert.deepEqual(await second, { name: 'container of b' })
  } finally {
    mock.timers.reset()
  }
})

test('an engine that fails at first fails the opening, and the next one asks it again', async () => {
  let isDown = true
  const admission = createAdmission({
    capacity: CAPACITY,
    list: () => (isDown ? Promise.reject(new Error('engine away')) : Promise.resolve([])),
  })
  const input = {
    key: 'a',
    request: PAPER,
    signal: never,
    open: () => Promise.resolve({ name: 'x' }),
    whileWaiting: (wait: () => Promise<void>) => wait(),
  }
  await assert.rejects(admission.admit(input), /engine away/)
  isDown = false
  assert.deepEqual(await admission.admit(input), { name: 'x' })
})
