import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Duplex } from 'node:stream'
import { test } from 'node:test'

import { createRelayStream } from './relay-stream.ts'

interface World {
  socket: Duplex
  send(...frames: Buffer[]): void
  opened: Duplex[]
  isOpen(): boolean
  close(): void
}

/** A relay whose every byte the test decides, and which reads nothing unless told. */
function newWorld(reads = true): World {
  const socket = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => (reads ? done() : undefined) })
  const opened: Duplex[] = []
  const stream = createRelayStream({ socket, onConnection: (connection) => void opened.push(connection) })
  return {
    socket,
    send: (...frames) => {
      for (const frame of frames) socket.emit('data', framed(frame))
    },
    opened,
    isOpen: () => stream.isOpen,
    close: () => stream.close(),
  }
}

/** As the engine sends output. */
function framed(payload: Buffer): Buffer {
  const header = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0])
  header.writeUInt32BE(payload.length, 4)
  return Buffer.concat([header, payload])
}

function frame(kind: string, id: number, payload: Buffer | string = ''): Buffer {
  const body = Buffer.from(payload)
  const header = Buffer.alloc(9)
  header.write(kind, 'latin1')
  header.writeUInt32BE(id, 1)
  header.writeUInt32BE(body.length, 5)
  return Buffer.concat([header, body])
}

test('accepts data of the maximum length in pieces of any size', () => {
  const world = newWorld()
  const whole = Buffer.concat([frame('R', 0), frame('O', 1), frame('D', 1, Buffer.alloc(32 * 1024, 'x'))])
  for (let at = 0; at < whole.length; at += 1000) world.send(whole.subarray(at, at + 1000))
  const read = world.opened[0]?.read() as Buffer | null | undefined
  assert.equal(read?.length, 32 * 1024)
  assert.ok(world.isOpen())
  world.close()
})

for (const [what, frames] of [
  ['announces more than it reads at once', [frame('O', 1), frame('D', 1, Buffer.alloc(32 * 1024 + 1))]],
  ['opens a connection twice', [frame('O', 1), frame('O', 1)]],
  ['says what no relay says', [frame('X', 1)]],
  [
    'opens and closes connections without end',
    Array.from({ length: 2000 }, (_, id) => Buffer.concat([frame('O', id), frame('C', id)])),
  ],
  ['opens connections without end', Array.from({ length: 2000 }, (_, id) => frame('O', id))],
] as const) {
  test(`ends the stream with all its connections for a relay that ${what}`, () => {
    const world = newWorld()
    world.send(...frames)
    assert.equal(world.isOpen(), false)
    assert.ok(world.opened.length < 400, `${world.opened.length} connections`)
    assert.ok(world.opened.every(({ destroyed }) => destroyed))
  })
}

test('bounds the data that is kept for a relay that reads nothing', () => {
  const world = newWorld(false)
  const ids = Array.from({ length: 200 }, (_, id) => id)
  world.send(...ids.map((id) => frame('O', id)))
  for (let round = 0; round < 4; round += 1) {
    for (const connection of world.opened) if (!connection.destroyed) connection.write(Buffer.alloc(128 * 1024))
  }
  assert.equal(world.isOpen(), false)
})

for (const [what, one] of [
  ['of a relay that is ready, again and again', frame('R', 0)],
  ['for a connection that there never was', frame('D', 7)],
  ['without content for an open connection', frame('D', 1)],
] as const) {
  test(`frames ${what}: the relay is throttled to an honest rate and then read on`, async () => {
    const world = newWorld()
    world.send(frame('O', 1))
    const piece = Buffer.concat(Array.from({ length: 1000 }, () => one))
    let pieces = 0
    for (; !world.socket.isPaused(); pieces += 1) {
      assert.ok(pieces < 100, 'the amount read at once is unbounded')
      world.send(piece)
    }
    assert.ok(pieces > 5, `only ${pieces} thousand frames in a burst`)
    await once(world.socket, 'resume', { signal: AbortSignal.timeout(10_000) })
    world.send(frame('D', 1, 'x'))
    assert.equal(String(world.opened[0]?.read()), 'x')
    world.close()
  })
}
