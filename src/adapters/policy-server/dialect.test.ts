import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readEvents, type StreamEvent } from './dialect.ts'

// oxlint-disable-next-line require-await -- the chunks of a stream
async function* chunksOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size)
}

async function eventsOf(text: string, size = 64 * 1024): Promise<StreamEvent[]> {
  const events: StreamEvent[] = []
  await readEvents(chunksOf(Buffer.from(text), size), (event) => events.push(event) > 0)
  return events
}

const STREAM =
  '\ufeffdata: one\n\n: a comment\nid: 7\nevent: error\r\ndata: {"a":\r\ndata:  "é😀"}\r\n\r\ndata:three\r\rdata\n\nevent: lost\n\ndata: [DONE]\n\ndata: unfinished\n'

test('a stream gives the same events, however its chunks cut lines, ends of lines and characters', async () => {
  for (const size of [1, 2, 3, 5, 7, 1_000]) {
    assert.deepEqual(
      await eventsOf(STREAM, size),
      [
        { name: '', data: 'one' },
        { name: 'error', data: '{"a":\n "é😀"}' },
        { name: '', data: 'three' },
        { name: '', data: '' },
        { name: '', data: '[DONE]' },
      ],
      `chunks of ${size} bytes`,
    )
  }
})

test('reading stops when it is told to, and closes the stream', async () => {
  let isClosed = false
  async function* endless(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) yield await Promise.resolve(Buffer.from('data: x\n\n'))
    } finally {
      isClosed = true
    }
  }
  let count = 0
  await readEvents(endless(), () => (count += 1) < 3)
  assert.deepEqual([count, isClosed], [3, true])
})

for (const [what, text] of [
  ['one line', `data: ${'x'.repeat(2_000_000)}`],
  ['a line that names no field', 'x'.repeat(2_000_000)],
  ['a million lines', 'data:\n'.repeat(1_200_000)],
] as const) {
  test(`an event over a mebibyte is refused before its end: ${what}`, async () => {
    await assert.rejects(eventsOf(text), /^Error: event over 1048576 characters$/)
  })
}

// The story: the chunks of a fast server are all there, so reading them never waited, and heartbeats and other episodes did.
test('other work of the process goes on between the chunks of a stream that is already there', async () => {
  let turns = 0
  let isReading = true
  const count = (): void => {
    turns += 1
    if (isReading) setImmediate(count)
  }
  setImmediate(count)
  const events = await eventsOf('data:{}\n\n'.repeat(100_000), 9_000)
  isReading = false
  assert.equal(events.length, 100_000)
  assert.ok(turns >= 90, `${turns} turns of the event loop for 100 chunks`)
})
