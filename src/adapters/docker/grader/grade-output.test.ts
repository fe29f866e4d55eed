import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_LOG_BYTES } from '../../artifacts/stored-log.ts'
import { createAuditReader, createGradeReader } from './grade-output.ts'

const MARK = 'f00d'
const answer = (log: string, errors = ''): Buffer =>
  Buffer.from(`\nlh1 ${MARK} ran 1 4096\n${log}\nlh1 ${MARK}\n${errors}\nlh1 ${MARK}\n`, 'latin1')

for (const size of [1, 7, 64, 100_000]) {
  test(`an answer in pieces of ${size} bytes is complete with the last one`, () => {
    const read = createGradeReader(MARK)
    const bytes = Buffer.concat([Buffer.from('noise\nlh1 guess ran 0 1\n'), answer('caf\xe9\nlh1 \n\n', 'oh\n')])
    for (let start = 0; start < bytes.length - size; start += size) {
      assert.equal(read(bytes.subarray(start, start + size)), null)
    }
    const rest = (Math.ceil(bytes.length / size) - 1) * size
    const output = read(bytes.subarray(rest))
    assert.ok(output !== null && output !== 'too-long')
    assert.deepEqual(output.words, ['ran', '1', '4096'])
    assert.equal(output.log.toString('latin1'), 'caf\xe9\nlh1 \n\n')
    assert.equal(output.errors.toString(), 'oh\n')
  })
}

test('reads two empty logs, and the answer of a kernel without memory figures', () => {
  const output = createGradeReader(MARK)(Buffer.from(`\nlh1 ${MARK} timed-out 137 \n\nlh1 ${MARK}\n\nlh1 ${MARK}\n`))
  assert.ok(output !== null && output !== 'too-long')
  assert.deepEqual([output.words, output.log.length, output.errors.length], [['timed-out', '137'], 0, 0])
})

test('drops bytes before the answer and refuses a flood of them', () => {
  const read = createGradeReader(MARK)
  const stray = Buffer.alloc(1024 * 1024, 'x')
  assert.equal(read(stray), null)
  assert.equal(read(Buffer.from('x')), 'too-long')
})

test('refuses more bytes than an answer has', () => {
  const read = createGradeReader(MARK)
  const flood = Buffer.alloc(MAX_LOG_BYTES, 'x')
  assert.equal(read(Buffer.from(`\nlh1 ${MARK} ran 0 1 1\n`)), null)
  assert.equal(read(flood), null)
  assert.equal(read(flood), null)
  assert.equal(read(flood), 'too-long')
})

const audit = (result: string): Buffer =>
  Buffer.from(`\nlh1 beef tested\npatch\n\nlh1 beef\n${result}\nlh1 beef\nwhy\nlh1 beef\n`)

for (const size of [1, 5, 100_000]) {
  test(`reads the answer of an audit in pieces of ${size} bytes after noise and a guessed mark`, () => {
    const read = createAuditReader('beef')
    const bytes = Buffer.concat([Buffer.from('noise'), answer('of another mark'), audit('{"a":1}')])
    let output: ReturnType<typeof read> = null
    for (let start = 0; start < bytes.length; start += size) output ??= read(bytes.subarray(start, start + size))
    assert.ok(output !== null && output !== 'too-long')
    assert.deepEqual(output.words, ['tested'])
    const { patch, result, errors } = output
    assert.deepEqual([patch, result, errors].map(String), ['patch\n', '{"a":1}', 'why'])
  })
}

test('ignores a second answer of an audit in the same piece', () => {
  const output = createAuditReader('beef')(Buffer.concat([audit('first'), audit('second')]))
  assert.ok(output !== null && output !== 'too-long')
  assert.equal(output.result.toString(), 'first')
})
