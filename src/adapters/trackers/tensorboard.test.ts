import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { crc32c, eventFrames, tensorboardTracker } from './tensorboard.ts'

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

test('a disk that takes only a part of the new bytes fails the sending, and the next one writes the rest', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-tensorboard-'))
  t.after(() => rm(directory, { recursive: true, force: true }))
  const points = Array.from({ length: 40 }, (_, step) => ({ metric: 'dapo-1/loss', step, value: 0.5, atMs: 1_000 }))
  const whole = Buffer.concat(eventFrames(points).map((frame) => frame.bytes))
  const run = { run: 'run', id: '', facts: {}, points, isReported: false }
  const send = async (): Promise<number[]> => {
    const sent: number[] = []
    const { signal } = new AbortController()
    await tensorboardTracker({ kind: 'tensorboard', directory }).send(run, {
      isDry: false,
      settleId: (id) => Promise.resolve(id),
      onSent: (count) => sent.push(count),
      signal,
    })
    return sent
  }
  assert.deepEqual(await send(), [40])
  const [name = ''] = await readdir(join(directory, 'run'))
  const path = join(directory, 'run', name)
  assert.ok(whole.length > 1_500)
  await writeFile(path, whole.subarray(0, 900))
  // A process that may write no further than byte 1,024 of a file: the kernel takes the first 124 bytes and counts them.
  const code = `
    import { tensorboardTracker } from ${JSON.stringify(import.meta.resolve('./tensorboard.ts'))}
    const { directory, run } = JSON.parse(process.argv[1])
    try {
      const signal = new AbortController().signal
      await tensorboardTracker({ kind: 'tensorboard', directory }).send(run, { isDry: false, onSent: (n) => console.log('sent', n), signal })
    } catch (error) {
      console.log(error.code, error.message)
    }`
  const limited = spawnSync(
    'bash',
    [
      '-c',
      'ulimit -f 1 && exec "$@"',
      'bash',
      process.execPath,
      '--input-type=module',
      '-e',
      code,
      JSON.stringify({ directory, run }),
    ],
    { encoding: 'utf8' },
  )
  assert.match(
    limited.stdout,
    /^Tracker\.Unavailable TensorBoard: the event file .* cannot be written \(EFBIG\)/,
    limited.stderr,
  )
  assert.deepEqual(await readFile(path), whole.subarray(0, 1_024))
  const [missing] = await send()
  assert.ok(missing !== undefined && missing > 0 && missing < 40)
  assert.deepEqual(await readFile(path), whole)
})
