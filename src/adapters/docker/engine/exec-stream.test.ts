import assert from 'node:assert/strict'
import { test } from 'node:test'

import { type StreamKind, createDemultiplexer } from './exec-stream.ts'

function frame(kind: number, text: string): Buffer {
  const header = Buffer.from([kind, 0, 0, 0, 0, 0, 0, 0])
  header.writeUInt32BE(Buffer.byteLength(text), 4)
  return Buffer.concat([header, Buffer.from(text)])
}

test('frames that are split anywhere give the same payloads in the same order', () => {
  const stream = Buffer.concat([frame(1, 'one'), frame(2, 'oops'), frame(1, ''), frame(1, 'two')])
  for (let size = 1; size <= stream.length; size += 1) {
    const seen: Record<StreamKind, string> = { stdout: '', stderr: '' }
    const push = createDemultiplexer((kind, payload) => {
      seen[kind] += payload.toString()
    })
    for (let at = 0; at < stream.length; at += size) push(stream.subarray(at, at + size))
    assert.deepEqual(seen, { stdout: 'onetwo', stderr: 'oops' }, `chunks of ${size}`)
  }
})
