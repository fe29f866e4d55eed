import assert from 'node:assert/strict'
import { Duplex } from 'node:stream'
import { test } from 'node:test'

import { RunnerStreamBroken, createConnection } from './runner-connection.ts'
import { MAX_LINE_BYTES, MAX_STATE_BYTES, type RunnerReply } from './runner-wire.ts'

interface Answered {
  reply: RunnerReply
  isOpen: boolean
}

/** Sends each part as a frame of its own, and as many chunks as `chunkBytes` makes of all frames. */
async function answer(
  parts: (Buffer | string)[],
  options: { maxBodyBytes?: number; chunkBytes?: number } = {},
): Promise<Answered> {
  let asked = ''
  const socket = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => ((asked = chunk.toString()), done()),
  })
  const connection = createConnection(socket)
  const reply = connection.ask('turn 3 1 tok 1000 100 hash - true\n', options.maxBodyBytes ?? 100)
  reply.catch(() => undefined)
  const [id = ''] = asked.split(' ')
  const stream = Buffer.concat(withId(parts, id).map(frame))
  const chunkBytes = options.chunkBytes ?? 64 * 1024
  for (let at = 0; at < stream.length; at += chunkBytes) socket.push(stream.subarray(at, at + chunkBytes))
  await new Promise((resolve) => setImmediate(resolve))
  const isOpen = connection.isOpen
  connection.close()
  return { reply: await reply, isOpen }
}

/** The words `ID` become the question's, which may lie across parts. */
function withId(parts: readonly (Buffer | string)[], id: string): Buffer[] {
  const whole = Buffer.concat(parts.map((part) => Buffer.from(part)))
  const answered = Buffer.from(whole.toString('latin1').replace('ID', id), 'latin1')
  let start = 0
  return parts.map((part, index) => {
    const end = index === parts.length - 1 ? answered.length : start + Buffer.byteLength(part)
    const payload = answered.subarray(start, end)
    start = end
    return payload
  })
}

function frame(payload: Buffer): Buffer {
  const header = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0])
  header.writeUInt32BE(payload.length, 4)
  return Buffer.concat([header, payload])
}

const done = (stateBytes: number | '=', head: number, tail = 0): string =>
  `lh1 ID done 0 exit ${head + tail} 20 0 0 0 ${stateBytes} ${head} ${tail} 3.tok\n`

test('reads lines, state and body of an answer in frames and chunks of any size', async () => {
  const text = `${done(6, 4)}/a b.py\n#0022\nbody`
  for (const size of [1, 3, 7, 1000]) {
    const parts = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
    const { reply, isOpen } = await answer(parts, { chunkBytes: size })
    assert.equal(reply.openFile, '/a b.py')
    assert.equal(reply.state.toString(), '#0022\n')
    assert.equal(reply.body.toString(), 'body')
    assert.ok(isOpen)
  }
})

test('accepts the longest allowed line, state and body', async () => {
  const open = 'o'.repeat(MAX_LINE_BYTES)
  const { reply } = await answer([
    done(MAX_STATE_BYTES, 60, 40),
    `${open}\n`,
    's'.repeat(MAX_STATE_BYTES),
    'b'.repeat(100),
  ])
  assert.equal(reply.openFile, open)
  assert.equal(reply.state.length, MAX_STATE_BYTES)
  assert.equal(reply.body.length, 100)
})

/** What a runner that is not ours may send, and what is said of it. Each only announces: nothing of it was held before it was refused. */
const HOSTILE: [string, (Buffer | string)[], RegExp][] = [
  ['a body of 2.4 GB', [done('=', 2_400_000_000), '\n'], /the body is too long/],
  ['one byte more than was asked for', [done('=', 60, 41), '\n'], /the body is too long/],
  ['lengths whose sum only is short', [done('=', 200, -150), '\n'], /a length is not a number/],
  ['a state of 29 MB', [done(29_000_000, 0), '\n'], /the state is too long/],
  ['a state one byte too long', [done(MAX_STATE_BYTES + 1, 0), '\n'], /the state is too long/],
  ['a patch of 1 GB', ['lh1 ID patch 1000000000 0\n'], /the body is too long/],
  [
    'a first line without an end',
    ['lh1 ', ...Array.from({ length: 40 }, () => 'x'.repeat(1024))],
    /a line is too long/,
  ],
  ['an open file without an end', [done('=', 0), 'x'.repeat(40_000)], /a line is too long/],
  ['an end that comes too late', [done('=', 0), `${'x'.repeat(MAX_LINE_BYTES + 1)}\n`], /a line is too long/],
  ['no mark', ['HTTP/1.1 200 OK\n'], /no mark/],
  ['a length in words', ['lh1 ID done 0 exit 1 1 0 0 0 = many 0 3.tok\n\n'], /a length is not a number/],
  ['no length at all', ['lh1 ID ready\n'], /a length is not a number/],
]

for (const [name, parts, refusal] of HOSTILE) {
  test(`ends the stream with an error for a runner that sends ${name}`, async () => {
    await assert.rejects(answer(parts), (error) => error instanceof RunnerStreamBroken && refusal.test(error.message))
  })
}

test('takes the first of two answers and ends the stream', async () => {
  const { reply, isOpen } = await answer([`lh1 ID error first\nlh1 ID error second\n`])
  assert.equal(reply.words[1], 'first')
  assert.equal(isOpen, false)
})

test('refuses a body for a request that has none', async () => {
  await assert.rejects(answer(['lh1 ID tree 1\nx'], { maxBodyBytes: 0 }), RunnerStreamBroken)
})

const ANOTHERS: [string, string][] = [
  ['of an earlier question', done('=', 0).replace('ID', '0123456789abcdef01234567')],
  ['without a question', done('=', 0).replace('ID ', '')],
  ['of another turn', done('=', 0).replace('3.tok', '2.tok')],
  ["with another turn's token", done('=', 0).replace('3.tok', '3.other')],
  ['with an unknown reason', done('=', 0).replace('exit', 'resolved')],
  ['that says that the runner has ended', 'lh1 ended\n'],
]

for (const [name, head] of ANOTHERS) {
  test(`refuses an answer ${name} and ends the stream`, async () => {
    await assert.rejects(answer([head, '\n']), RunnerStreamBroken)
  })
}
