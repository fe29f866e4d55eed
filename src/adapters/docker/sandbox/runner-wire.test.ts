import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'

import { isLonghaulError } from '../../../contracts/errors.ts'
import { readTranscript } from '../../../../test/support/wire-transcript.ts'
import {
  type RunnerReply,
  answersRequest,
  encodeTurn,
  isKnownReply,
  parseCapture,
  parseReady,
  parseTree,
  parseTurn,
  sizeOfReply,
} from './runner-wire.ts'

const request = {
  turn: 3,
  after: { turn: 1, token: 'before' },
  fence: 2,
  token: 'tok',
  timeoutMs: 1500.2,
  maxOutputBytes: 100,
}

test('encodes a command with every byte but NUL in one line without blanks, which printf %b restores', () => {
  const command = Array.from({ length: 0x7f }, (_, index) => String.fromCodePoint(index + 1)).join('') + 'é\\0101\\n'
  const line = encodeTurn({ ...request, command })
  const fields = line.trimEnd().split(' ')
  assert.deepEqual(fields.slice(0, 6), ['turn', '3', '2', 'tok', '1501', '100'])
  assert.equal(fields[7], '1.before')
  assert.equal(fields.length, 9)
  assert.equal(execFileSync('sh', ['-c', 'printf %b "$1"', 'sh', fields[8] as string]).toString(), command)
})

test('cuts output, omitted bytes and state of an answered turn out of the body', () => {
  const state = '#0022\n#/testbed/a b\nexport A="1\n2"\n'
  const words = ['done', '1', 'exit', '100', '20', '0', '5', '1', String(state.length), '3', '2', '3.tok']
  assert.deepEqual(sizeOfReply(words), { lines: 1, stateBytes: state.length, bodyBytes: 5 })
  const body = Buffer.from('abcyz')
  const result = parseTurn({ id: '', words, openFile: '/testbed/m.py', state: Buffer.from(state), body }, 7)
  assert.equal(Buffer.from(result.head).toString(), 'abc')
  assert.equal(Buffer.from(result.tail).toString(), 'yz')
  assert.equal(result.omittedBytes, 95)
  assert.equal(result.wallMs, 7)
  assert.deepEqual(result.state, {
    cwd: '/testbed/a b',
    environment: 'export A="1\n2"\n',
    umask: '0022',
    openFile: '/testbed/m.py',
    windowTop: 5,
    submitted: true,
  })
})

test('maps refusals to the codes that callers act on', () => {
  const codeFor = (...words: string[]): string | undefined => {
    try {
      parseTurn({ id: '', words, openFile: '', state: Buffer.alloc(0), body: Buffer.alloc(0) }, 1)
    } catch (error) {
      return isLonghaulError(error) ? error.code : undefined
    }
    return undefined
  }
  assert.equal(codeFor('fenced', '5'), 'Sandbox.Fenced')
  assert.equal(codeFor('conflict', 'command'), 'Sandbox.JournalConflict')
  assert.equal(codeFor('lost', 'interrupted'), 'Sandbox.Ended')
  assert.equal(codeFor('unsuitable', 'program', 'awk'), 'Sandbox.ImageUnsuitable')
  assert.equal(codeFor('nonsense'), 'Sandbox.Ended')
})

test('returns an empty patch with the reason when no patch can be taken', () => {
  const words = ['uncaptured', 'fatal:', 'not', 'a', 'repository']
  const { patch, failure } = parseCapture({
    id: '',
    words,
    openFile: '',
    state: Buffer.alloc(0),
    body: Buffer.alloc(0),
  })
  assert.equal(patch.byteLength, 0)
  assert.equal(failure, 'fatal: not a repository')
})

const DONE = ['done', '0', 'exit', '5', '20', '0', '1', '0', '=', '5', '0', '3.tok']

/** An honest answer with one word changed. */
const UNKNOWN: [string, number, string][] = [
  ['an exit code larger than that of any process', 1, '256'],
  ['a negative exit code', 1, '-1'],
  ['a reason that is none', 2, 'resolved'],
  ['a reason with a capital letter', 2, 'Exit'],
  ['less output than it brings', 3, '4'],
  ['output of more than any disk', 3, '9'.repeat(13)],
  ['a time in words', 4, '1e3'],
  ['a turn of a year', 4, '31536000000'],
  ['a turn of all time', 4, `1${'0'.repeat(18)}`],
  ['a time before it began', 4, '-1'],
  ['a time that is no number', 4, 'NaN'],
  ['no time', 4, ''],
  ['a memory limit that was met twice', 5, '2'],
  ['a window beyond all lines', 6, '1000000001'],
  ['a submission that is half', 7, '0.5'],
]

test('accepts answers of the runner', () => {
  assert.ok(isKnownReply(DONE))
  assert.ok(isKnownReply(['ready', 'a'.repeat(40), '0', '0', '17']))
  assert.ok(isKnownReply(['lost', 'interrupted']))
})

for (const [name, index, word] of UNKNOWN) {
  test(`${name}: it is no valid answer`, () => {
    assert.equal(isKnownReply(DONE.with(index, word)), false)
  })
}

test('refuses an answer with a wrong number of words, another start commit or an unknown word', () => {
  assert.equal(isKnownReply(DONE.slice(0, 11)), false)
  assert.equal(isKnownReply([...DONE, '0']), false)
  assert.equal(isKnownReply(['ready', 'HEAD', '0', '0', '17']), false)
  assert.equal(isKnownReply(['ended']), false)
})

test('an answer must name the requested turn and token, and only a turn has such an answer', () => {
  const asked = encodeTurn({ ...request, command: 'true' })
  assert.ok(answersRequest(asked, DONE))
  assert.equal(answersRequest(asked, DONE.with(11, '4.tok')), false)
  assert.equal(answersRequest(asked, DONE.with(11, '3.other')), false)
  assert.equal(answersRequest('init\n', DONE), false)
  assert.ok(answersRequest(asked, ['lost', 'interrupted']))
})

/** What the real runner has answered; `test/integration/runner-wire.test.ts` holds it against the runner of today. */
const { startCommit, exchanges } = readTranscript()

function recorded(what: string): RunnerReply {
  const found = exchanges.find((one) => one.what === what)
  assert.ok(found !== undefined, what)
  const { words, openFile, state, body } = found
  return { id: '', words, openFile, state: Buffer.from(state), body: Buffer.from(body) }
}

test('every recorded answer fits its request and states its length', () => {
  assert.ok(exchanges.length >= 11)
  for (const { what, request, words, state, body } of exchanges) {
    assert.ok(isKnownReply(words), what)
    assert.ok(answersRequest(request, words), what)
    const { stateBytes, bodyBytes } = sizeOfReply(words)
    assert.equal(bodyBytes, Buffer.byteLength(body), what)
    if (stateBytes !== null) assert.equal(stateBytes, Buffer.byteLength(state), what)
  }
})

test('reads recorded answers field by field', () => {
  const ready = parseReady(recorded('init'))
  assert.deepEqual([ready.startCommit, ready.state.cwd, ready.state.submitted], [startCommit, '/testbed', false])
  const turn = parseTurn(recorded('turn'), 1)
  assert.deepEqual([turn.exitCode, turn.reason, turn.outputBytes, turn.omittedBytes], [3, 'exit', 292, 272])
  assert.equal(Buffer.from(turn.head).toString(), '1\n2\n3\n4\n5\n')
  assert.equal(Buffer.from(turn.tail).toString(), '98\n99\n100\n')
  assert.match(turn.state.environment, /^declare -x A="b"$/m)
  assert.deepEqual(parseTurn(recorded('turn again'), 1), turn)
  const { state } = parseTurn(recorded('tool'), 1)
  assert.deepEqual([state.openFile, state.windowTop], ['/testbed/m.py', 1])
  const timedOut = parseTurn(recorded('timeout'), 1)
  assert.deepEqual([timedOut.exitCode, timedOut.reason], [null, 'timeout'])
  assert.match(Buffer.from(parseCapture(recorded('capture')).patch).toString(), /^\+one$/m)
  assert.match(parseCapture(recorded('capture too large')).failure ?? '', /patch-too-large/)
  assert.match(parseTree(recorded('tree')), /^[0-9a-f]{64}$/)
  for (const [what, code] of [
    ['another command', 'Sandbox.JournalConflict'],
    ['behind', 'Sandbox.Behind'],
    ['fenced', 'Sandbox.Fenced'],
  ] as const) {
    assert.throws(
      () => parseTurn(recorded(what), 1),
      (error) => isLonghaulError(error) && error.code === code,
    )
  }
})
