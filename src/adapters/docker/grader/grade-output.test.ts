import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_LOG_BYTES } from '../../artifacts/stored-log.ts'
import { createGradeReader } from './grade-output.ts'

const MARK = 'f00d'
const alone = { official: MARK, audit: null }
const answer = (log: string, errors = ''): Buffer =>
  Buffer.from(`\nlh1 ${MARK} ran 1 4096\n${log}\nlh1 ${MARK}\n${errors}\nlh1 ${MARK}\n`, 'latin1')

for (const size of [1, 7, 64, 100_000]) {
  test(`an answer that comes in pieces of ${size} bytes is whole with the last one`, () => {
    const { read } = createGradeReader(alone)
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

test('two empty logs, and a kernel that tells no memory', () => {
  const output = createGradeReader(alone).read(
    Buffer.from(`\nlh1 ${MARK} timed-out 137 \n\nlh1 ${MARK}\n\nlh1 ${MARK}\n`),
  )
  assert.ok(output !== null && output !== 'too-long')
  assert.deepEqual([output.words, output.log.length, output.errors.length], [['timed-out', '137'], 0, 0])
})

test('what comes before the answer is not kept, and a flood of it is refused', () => {
  const { read } = createGradeReader(alone)
  const stray = Buffer.alloc(1024 * 1024, 'x')
  assert.equal(read(stray), null)
  assert.equal(read(Buffer.from('x')), 'too-long')
})

test('what is longer than an answer is refused', () => {
  const { read } = createGradeReader(alone)
  const flood = Buffer.alloc(MAX_LOG_BYTES, 'x')
  assert.equal(read(Buffer.from(`\nlh1 ${MARK} ran 0 1 1\n`)), null)
  assert.equal(read(flood), null)
  assert.equal(read(flood), null)
  assert.equal(read(flood), 'too-long')
})

const audited = { official: MARK, audit: 'beef' }
const audit = (result: string): Buffer =>
  Buffer.from(`\nlh1 beef tested\npatch\n\nlh1 beef\n${result}\nlh1 beef\n\nlh1 beef\n`)

for (const size of [1, 5, 100_000]) {
  test(`the audit comes before the official answer, in pieces of ${size} bytes`, () => {
    const { read, audit: soFar } = createGradeReader(audited)
    const bytes = Buffer.concat([Buffer.from('noise'), audit('{"a":1}'), Buffer.from('more noise'), answer('log')])
    let output: ReturnType<typeof read> = null
    for (let start = 0; start < bytes.length; start += size) output ??= read(bytes.subarray(start, start + size))
    assert.ok(output !== null && output !== 'too-long')
    assert.deepEqual(soFar()?.words, ['tested'])
    assert.deepEqual([output.audit?.patch.toString(), output.audit?.result.toString()], ['patch\n', '{"a":1}'])
    assert.deepEqual([output.words[0], output.log.toString()], ['ran', 'log'])
  })
}

test('an answer of the audit that comes a second time, and an official one before it, are not taken', () => {
  const { read } = createGradeReader(audited)
  assert.equal(read(answer('forged before')), null)
  assert.equal(read(audit('first')), null)
  assert.equal(read(audit('second')), null)
  const output = read(answer('true'))
  assert.ok(output !== null && output !== 'too-long')
  assert.deepEqual([output.audit?.result.toString(), output.log.toString()], ['first', 'true'])
})
