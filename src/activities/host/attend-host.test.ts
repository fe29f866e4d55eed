import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HostFacts } from '../../contracts/hosts.types.ts'
import { createHostDoor } from '../runtime/host-door.ts'
import { attendHost } from './attend-host.ts'

const resources = { cpus: 4, memoryMiB: 8_192 }
const factsWith = (sandboxes: number): HostFacts => ({
  since: '2026-03-04T05:06:07.000Z',
  takesWork: true,
  sandboxes,
  gradings: 0,
  requested: resources,
  capacity: resources,
  trouble: null,
})

function attended(limits: { everyMs: number; forMs?: number }) {
  const door = createHostDoor('x')
  const beats: number[] = []
  let looks = 0
  const over = new AbortController()
  const seen = Promise.withResolvers<void>()
  const beat = (facts: object): void => {
    beats.push((facts as HostFacts).sandboxes)
    if (beats.length === 3) seen.resolve()
  }
  const look = (): Promise<HostFacts> => Promise.resolve(factsWith(++looks))
  const ended = attendHost({ door, look, ...limits }, { beat, signal: over.signal })
  return { door, beats, over, seen: seen.promise, ended }
}

test('a host reports its state repeatedly until its worker stops, and then ends successfully', async () => {
  const { door, beats, seen, ended } = attended({ everyMs: 1 })
  await seen
  door.stop()
  await ended
  assert.deepEqual(beats.slice(0, 3), [1, 2, 3])
})

test('a report past its time ends successfully, so that the next one starts', async () => {
  const { beats, ended } = attended({ everyMs: 60_000, forMs: 0 })
  await ended
  assert.deepEqual(beats, [])
})

test('the report of a host whose name another machine took is cancelled during its wait', async () => {
  const { over, ended } = attended({ everyMs: 60_000 })
  await Promise.resolve()
  over.abort(new Error('cancelled'))
  await assert.rejects(ended, /cancelled/)
})
