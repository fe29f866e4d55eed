import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crc32c, eventFrames } from './tensorboard.ts'

const bytes = (length: number, at: (index: number) => number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => at(i))

test('CRC-32C equals RFC 3720, B.4, and its check value', () => {
  assert.equal(crc32c(bytes(32, () => 0)), 0x8a9136aa)
  assert.equal(crc32c(bytes(32, () => 0xff)), 0x62a8ab43)
  assert.equal(crc32c(bytes(32, (i) => i)), 0x46dd794e)
  assert.equal(crc32c(bytes(32, (i) => 31 - i)), 0x113fdb5c)
  assert.equal(crc32c(Buffer.from('123456789')), 0xe3069283)
  assert.equal(crc32c(new Uint8Array()), 0)
})

/** What tensorboard 2.21.0's own writer makes of an `Event` with the version at 2.5 s and one with two values of step 300. */
const WRITTEN_BY_TENSORBOARD =
  '1800000000000000a37f4b220900000000000004401a0d627261696e2e4576656e743a32b19bcaec34000000000000005e33' +
  '175c09000000000000044010ac022a260a120a0b6461706f2d312f6c6f7373150000003f0a100a096461706f2d312f6b3115' +
  '000080be89746919'

test('writes the same bytes as TensorBoard’s own writer, masked CRCs included', () => {
  const points = [
    { metric: 'dapo-1/loss', step: 300, value: 0.5, atMs: 2_500 },
    { metric: 'dapo-1/k1', step: 300, value: -0.25, atMs: 2_500 },
  ]
  const bytes = Buffer.concat(eventFrames(points).map((frame) => frame.bytes))
  assert.equal(bytes.toString('hex'), WRITTEN_BY_TENSORBOARD)
})

test('points of one record and step form one event in order, and no points form no file', () => {
  const point = { metric: 'dapo-1/loss', step: 300, value: 0.5, atMs: 1_000 }
  const frames = eventFrames([
    point,
    { ...point, metric: 'dapo-1/k1' },
    { ...point, step: 301 },
    { ...point, atMs: 2_000 },
  ])
  assert.deepEqual(
    frames.map(({ points }) => points),
    [0, 2, 1, 1],
  )
  assert.deepEqual(eventFrames([]), [])
})
