import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAdmission } from '../../adapters/docker/sandbox/admission.ts'
import type { OpenSandboxInput, SandboxHandle, SandboxHost } from '../../contracts/sandbox.types.ts'
import { admitSandboxes } from './admit-sandboxes.ts'
import { createHostDoor } from './host-door.ts'
import { createWaitBoard } from './wait-board.ts'

function makeHost(opened: string[]): SandboxHost {
  const host: Pick<SandboxHost, 'open' | 'close'> = {
    open: ({ episode }) => {
      opened.push(episode)
      return Promise.resolve({ name: `container of ${episode}` } as SandboxHandle)
    },
    close: () => Promise.resolve(),
  }
  return host as SandboxHost
}

function inputOf(episode: string, request?: OpenSandboxInput['request']): OpenSandboxInput {
  return { episode, placement: 1, ...(request === undefined ? {} : { request }) } as OpenSandboxInput
}

const signal = new AbortController().signal
const half = { cpus: 0.5, memoryMiB: 2048 }

test('a wait for a full host names the request and the capacity, and ends when a sandbox is closed', async () => {
  const opened: string[] = []
  const host = admitSandboxes({
    host: makeHost(opened),
    admission: createAdmission({ capacity: { cpus: 1, memoryMiB: 4096 }, list: () => Promise.resolve([]) }),
    hostId: 'host-1',
  })
  await host.open(inputOf('a', half), signal)
  const second = await host.open(inputOf('b', half), signal)

  const board = createWaitBoard()
  const third = board.run(() => host.open(inputOf('c', half), signal))
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
  const wait = board.current()
  assert.equal(wait?.doing, 'waiting for a place for 0.5 CPU and 2 GiB: 2 sandboxes occupy this host’s 1 CPU and 4 GiB')
  assert.deepEqual([wait?.on, wait?.expectedUntilMs], [{ kind: 'host', name: 'host-1' }, null])
  assert.deepEqual(opened, ['a', 'b'])

  await host.close(second)
  await third
  assert.deepEqual(opened, ['a', 'b', 'c'])
  assert.equal(board.current(), null)
})

test('a sandbox without a request is opened on a full host', async () => {
  const opened: string[] = []
  const admission = createAdmission({ capacity: half, list: () => Promise.resolve([]) })
  const host = admitSandboxes({ host: makeHost(opened), admission, hostId: 'x' })
  await host.open(inputOf('a', half), signal)
  await host.open(inputOf('old'), signal)
  assert.deepEqual(opened, ['a', 'old'])
})

test('a waiting sandbox is refused when its host is drained, and open ones stay', async () => {
  const opened: string[] = []
  const door = createHostDoor('node-7')
  const admission = createAdmission({ capacity: half, list: () => Promise.resolve([]) })
  const host = admitSandboxes({ host: makeHost(opened), admission, hostId: 'node-7', door })
  await host.open(inputOf('a', half), signal)
  const second = host.open(inputOf('b', half), signal)
  second.catch(() => undefined)
  for (let turn = 0; turn < 20; turn++) await Promise.resolve()
  assert.equal(admission.waiting(), 1)
  door.obey({ since: '2026-03-04T05:06:07.000Z', moving: false, moveAt: null })
  await assert.rejects(second, { code: 'Host.Closed' })
  assert.deepEqual([opened, admission.waiting(), admission.share()], [['a'], 0, 1])
})
