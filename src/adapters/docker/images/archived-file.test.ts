import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'

import { readArchivedFile } from './archived-file.ts'

interface Entry {
  name?: string
  type?: string
  size?: number | string
  body?: string
}

/** One tar entry, every lie included. */
function entry({ name = 'log', type = '0', body = '', size = Buffer.byteLength(body) }: Entry = {}): Buffer {
  const header = Buffer.alloc(512)
  header.write(name, 0, 'utf8')
  header.write('0000644\0', 100)
  header.write(typeof size === 'string' ? size : `${size.toString(8).padStart(11, '0')}\0`, 124)
  header.write(' '.repeat(8), 148)
  header.write(type, 156, 'latin1')
  header.write('ustar\x0000', 257, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  const content = Buffer.from(body)
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)])
}

const extended = (...records: string[]): Buffer =>
  entry({
    name: 'PaxHeaders/log',
    type: 'x',
    body: records
      .map((record) => {
        const rest = ` ${record}\n`
        const length = rest.length + String(rest.length + 2).length
        return `${length}${rest}`
      })
      .join(''),
  })

const END = Buffer.alloc(1024)

async function read(parts: Buffer[], { maxBytes = 1000, chunk = 100 } = {}) {
  const all = Buffer.concat(parts)
  const pieces = Array.from({ length: Math.ceil(all.length / chunk) }, (_, index) =>
    all.subarray(index * chunk, (index + 1) * chunk),
  )
  const file = await readArchivedFile({ stream: Readable.from(pieces), name: 'log', maxBytes })
  return file.kind === 'file' ? [file.bytes.toString(), file.isWhole] : file.reason
}

test('reads a regular file byte for byte, for any chunk size of the stream', async () => {
  const body = 'a\0\nb'.repeat(200)
  for (const chunk of [1, 511, 512, 5000]) assert.deepEqual(await read([entry({ body }), END], { chunk }), [body, true])
  assert.deepEqual(await read([entry({ type: '\0', body: 'old kind' }), END]), ['old kind', true])
  assert.deepEqual(await read([entry(), END]), ['', true])
  assert.deepEqual(await read([extended('mtime=1.5', 'SCHILY.xattr.user.x=1'), entry({ body: 'x' }), END]), ['x', true])
})

test('reads only the beginning of a file above the limit and marks it', async () => {
  assert.deepEqual(await read([entry({ body: 'x'.repeat(5000) }), END], { maxBytes: 10 }), ['x'.repeat(10), false])
})

test('requests no more than the limit for a file that claims a terabyte, sparse or not', async () => {
  let sent = 0
  const stream = (async function* () {
    yield extended(`size=${2 ** 40}`)
    yield entry({ size: 0 })
    for (;;) {
      sent += 1 << 20
      yield Buffer.alloc(1 << 20)
    }
  })()
  const file = await readArchivedFile({ stream, name: 'log', maxBytes: 3 << 20 })
  assert.deepEqual(file.kind === 'file' && [file.bytes.length, file.isWhole], [3 << 20, false])
  assert.ok(sent <= 4 << 20)
})

const REFUSED: [what: string, parts: Buffer[], reason: RegExp][] = [
  ['a hard link', [entry({ type: '1' })], /type is "1"/],
  ['a symbolic link', [entry({ type: '2' })], /type is "2"/],
  ['a character device', [entry({ type: '3' })], /type is "3"/],
  ['a block device', [entry({ type: '4' })], /type is "4"/],
  ['a directory', [entry({ type: '5' })], /type is "5"/],
  ['a pipe', [entry({ type: '6' })], /type is "6"/],
  ['an old sparse map', [entry({ type: 'S', body: 'x' })], /type is "S"/],
  ['a long name of GNU', [entry({ type: 'L', body: '../../etc/passwd' }), entry()], /type is "L"/],
  ['a header for the whole archive', [entry({ type: 'g', body: '' }), entry()], /type is "g"/],
  ['a name that climbs', [entry({ name: '../log', body: 'x' })], /name/],
  ['an absolute name', [entry({ name: '/log', body: 'x' })], /name/],
  ['another name before it', [entry({ name: 'other', body: 'x' }), entry({ body: 'y' })], /name/],
  ['an extended name', [extended('path=../../etc/passwd'), entry({ body: 'x' })], /sets path/],
  ['an extended link', [extended('linkpath=/etc/passwd'), entry({ body: 'x' })], /sets linkpath/],
  ['an extended sparse map', [extended('GNU.sparse.major=1'), entry({ body: 'x' })], /sets GNU.sparse/],
  ['two extended headers', [extended('mtime=1'), extended('mtime=1'), entry({ body: 'x' })], /type is "x"/],
  ['an endless extended header', [entry({ type: 'x', size: 1 << 30 })], /too long/],
  ['broken records', [entry({ type: 'x', body: '99 size=1\n' }), entry()], /broken/],
  ['a negative extended size', [extended('size=-5'), entry()], /broken/],
  ['a size in base 256', [entry({ size: '\x80\0\0\0\0\0\0\0\0\0\x01' })], /broken/],
  ['a wrong sum', [Buffer.concat([Buffer.from('x'), entry().subarray(1)])], /broken/],
  ['an end in the middle', [entry({ body: 'x'.repeat(600) }).subarray(0, 700)], /early/],
  ['nothing', [], /no file/],
]

for (const [what, parts, reason] of REFUSED) {
  test(`refuses ${what}`, async () => {
    const found = await read([...parts, ...(what === 'an end in the middle' ? [] : [END])])
    assert.match(String(found), reason)
  })
}
