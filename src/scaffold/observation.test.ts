import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxState } from '../contracts/episodes.types.ts'
import { firstMessage, formatErrorText, observationText, promptLine } from './observation.ts'
import type { ObservationInput } from './observation.ts'
import { shortenOutput } from './output-text.ts'
import { scaffoldProfile } from './profiles.ts'

const paper = scaffoldProfile('paper')
const demo = scaffoldProfile('demo')
const repoDir = '/testbed'
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const NONE = bytes('')

const state = (change: Partial<SandboxState> = {}): SandboxState => ({
  cwd: '/testbed',
  environment: '',
  umask: '0022',
  openFile: null,
  windowTop: 0,
  submitted: false,
  ...change,
})

const observe = (change: Partial<ObservationInput['result']>, profile = demo): string =>
  observationText({
    profile,
    repoDir,
    timeoutMs: 30_000,
    result: {
      exitCode: 0,
      reason: 'exit',
      head: NONE,
      tail: NONE,
      omittedBytes: 0,
      oomKilled: false,
      state: state(),
      ...change,
    },
  })

const PROMPT = '\n\n(Current directory: /testbed, current file: none) bash-$'

test('the prompt line shows the open file absolute in one profile and relative in the other', () => {
  const open = state({ openFile: '/testbed/a/b.py', cwd: '/testbed/a' })
  const line = (profile: typeof demo): string => promptLine({ profile, state: open, repoDir })
  assert.equal(line(paper), '(Current directory: /testbed/a, current file: /testbed/a/b.py) bash-$')
  assert.equal(line(demo), '(Current directory: /testbed/a, current file: a/b.py) bash-$')
})

test('a file outside the repository keeps its absolute path, also beside a directory of similar name', () => {
  const open = state({ openFile: '/testbed2/b.py' })
  assert.ok(promptLine({ profile: demo, state: open, repoDir }).includes('current file: /testbed2/b.py'))
})

test('the first message is the statement alone or with advice, the prompt line last', () => {
  const input = { state: state(), repoDir, statement: 'It breaks.\n' }
  assert.equal(firstMessage({ ...input, profile: demo }), `It breaks.${PROMPT}`)
  const full = firstMessage({ ...input, profile: paper })
  for (const part of ['It breaks.', 'git stash pop', 'git diff', 'edge cases', 'root of the repository']) {
    assert.ok(full.includes(part), part)
  }
  assert.ok(full.endsWith(PROMPT))
})

test('output is followed by exactly one blank line and the prompt line', () => {
  assert.equal(observe({ head: bytes('a\nb\n\n') }), `a\nb${PROMPT}`)
})

test('an empty output says so, and a failing one names the exit code', () => {
  assert.equal(observe({}), `The command ran and printed nothing.${PROMPT}`)
  assert.equal(observe({ exitCode: 1 }), `The command failed with exit code 1 and printed nothing.${PROMPT}`)
})

test('a command stopped at its limit says so after what it printed', () => {
  assert.equal(
    observe({ head: bytes('partial'), exitCode: null, reason: 'timeout' }),
    `partial\nThe command was stopped because it ran longer than 30 seconds.${PROMPT}`,
  )
})

test('memory death and endless output are named', () => {
  assert.match(observe({ exitCode: 137, reason: 'signal', oomKilled: true }), /memory ran out/)
  assert.match(observe({ exitCode: null, reason: 'output-limit' }), /too much output/)
})

test('each format error names its own fault and shows the form', () => {
  const input = { profile: demo, state: state(), repoDir }
  const none = formatErrorText({ ...input, error: 'cannot_extract_command' })
  const many = formatErrorText({ ...input, error: 'multiple_commands' })
  assert.notEqual(none, many)
  for (const text of [none, many]) {
    assert.ok(text.includes('```command\nls -a\n```'))
    assert.ok(text.endsWith(PROMPT))
  }
})

test('output over the cap keeps head and tail and counts what is missing', () => {
  const text = shortenOutput({
    head: bytes('a'.repeat(60) + 'b'.repeat(60)),
    tail: NONE,
    omittedBytes: 0,
    maxChars: 20,
  })
  assert.ok(text.startsWith('aaaaaaaaaa\n'))
  assert.ok(text.endsWith('\nbbbbbbbbbb'))
  assert.match(text, /about 100 characters/)
})

test('bytes left out by the runner are marked even below the cap', () => {
  const text = shortenOutput({ head: bytes('first'), tail: bytes('last\n'), omittedBytes: 500, maxChars: 100 })
  assert.match(text, /^first\n\[.*about 500 characters.*\]\nlast$/)
})

test('a character split by the cut does not become a replacement character', () => {
  const euro = bytes('€')
  const text = shortenOutput({
    head: new Uint8Array([...bytes('x'), ...euro.subarray(0, 2)]),
    tail: new Uint8Array([...euro.subarray(1), ...bytes('y')]),
    omittedBytes: 10,
    maxChars: 100,
  })
  assert.ok(!text.includes('\uFFFD'))
  assert.ok(text.startsWith('x\n') && text.endsWith('\ny'))
})

test('invalid bytes are shown, and a cut never leaves half a surrogate pair', () => {
  assert.equal(
    shortenOutput({ head: new Uint8Array([0x61, 0xff]), tail: NONE, omittedBytes: 0, maxChars: 9 }),
    'a\uFFFD',
  )
  const smile = shortenOutput({ head: bytes('😀'.repeat(50)), tail: NONE, omittedBytes: 0, maxChars: 7 })
  assert.ok(smile.isWellFormed())
})
