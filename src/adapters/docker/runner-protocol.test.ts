import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'

import { isLonghaulError } from '../../contracts/errors.ts'
import { MAX_INLINE_BYTES, encodeTurn, parseCapture, parseTurn, sizeOfReply } from './runner-protocol.ts'

const request = {
  turn: 3,
  after: { turn: 1, token: 'before' },
  fence: 2,
  token: 'tok',
  timeoutMs: 1500.2,
  maxOutputBytes: 100,
}

test('a command with every byte but NUL: one line without blanks, restored by printf %b', () => {
  const command = Array.from({ length: 0x7f }, (_, index) => String.fromCodePoint(index + 1)).join('') + 'é\\0101\\n'
  const { line, upload } = encodeTurn({ ...request, command })
  const fields = line.trimEnd().split(' ')
  assert.deepEqual(fields.slice(0, 6), ['turn', '3', '2', 'tok', '1501', '100'])
  assert.equal(fields[7], '1.before')
  assert.equal(fields.length, 9)
  assert.equal(upload, null)
  assert.equal(execFileSync('sh', ['-c', 'printf %b "$1"', 'sh', fields[8] as string]).toString(), command)
})

test('a long command: it is uploaded, and no short command looks like that', () => {
  const command = 'x'.repeat(MAX_INLINE_BYTES + 1)
  const { line, upload } = encodeTurn({ ...request, command })
  assert.ok(line.endsWith(' @\n'))
  assert.equal(upload?.toString(), `\n${command}`)
  assert.ok(!encodeTurn({ ...request, command: '@' }).line.endsWith(' @\n'))
})

test('an answered turn: output, omitted bytes and state are cut out of the body', () => {
  const state = '#0022\n#/testbed/a b\nexport A="1\n2"\n'
  const words = ['done', '1', 'exit', '100', '20', '0', '5', '1', String(state.length), '3', '2']
  assert.deepEqual(sizeOfReply(words), { lines: 1, stateBytes: state.length, bodyBytes: 5 })
  const body = Buffer.from('abcyz')
  const result = parseTurn({ words, openFile: '/testbed/m.py', state: Buffer.from(state), body })
  assert.equal(Buffer.from(result.head).toString(), 'abc')
  assert.equal(Buffer.from(result.tail).toString(), 'yz')
  assert.equal(result.omittedBytes, 95)
  assert.deepEqual(result.state, {
    cwd: '/testbed/a b',
    environment: 'export A="1\n2"\n',
    umask: '0022',
    openFile: '/testbed/m.py',
    windowTop: 5,
    submitted: true,
  })
})

test('refusals become the codes that callers act on', () => {
  const codeFor = (...words: string[]): string | undefined => {
    try {
      parseTurn({ words, openFile: '', state: Buffer.alloc(0), body: Buffer.alloc(0) })
    } catch (error) {
      return isLonghaulError(error) ? error.code : undefined
    }
    return undefined
  }
  assert.equal(codeFor('fenced', '5'), 'Sandbox.Fenced')
  assert.equal(codeFor('conflict', 'command'), 'Sandbox.JournalConflict')
  assert.equal(codeFor('lost', 'interrupted'), 'Sandbox.Lost')
  assert.equal(codeFor('unsuitable', 'program', 'awk'), 'Sandbox.ImageUnsuitable')
  assert.equal(codeFor('nonsense'), 'Sandbox.Lost')
})

test('no patch can be taken: an empty one with the reason', () => {
  const words = ['uncaptured', 'fatal:', 'not', 'a', 'repository']
  const { patch, failure } = parseCapture({ words, openFile: '', state: Buffer.alloc(0), body: Buffer.alloc(0) })
  assert.equal(patch.byteLength, 0)
  assert.equal(failure, 'fatal: not a repository')
})
