import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SandboxState } from '../contracts/episodes.types.ts'
import {
  type ObservationInput,
  firstMessage,
  formatErrorText,
  observationText,
  parseReply,
  promptLine,
  shortenOutput,
} from './observation.ts'
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

test('the prompt line shows the open file as an absolute path in one profile and a relative one in the other', () => {
  const open = state({ openFile: '/testbed/a/b.py', cwd: '/testbed/a' })
  const line = (profile: typeof demo): string => promptLine({ profile, state: open, repoDir })
  assert.equal(line(paper), '(Current directory: /testbed/a, current file: /testbed/a/b.py) bash-$')
  assert.equal(line(demo), '(Current directory: /testbed/a, current file: a/b.py) bash-$')
})

test('a file outside the repository keeps its absolute path, also beside a directory of similar name', () => {
  const open = state({ openFile: '/testbed2/b.py' })
  assert.ok(promptLine({ profile: demo, state: open, repoDir }).includes('current file: /testbed2/b.py'))
})

test('the first message is the statement, with or without advice, and ends with the prompt line', () => {
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

test('a command stopped at its limit says so after its output', () => {
  assert.equal(
    observe({ head: bytes('partial'), exitCode: null, reason: 'timeout' }),
    `partial\nThe command was stopped because it ran longer than 30 seconds.${PROMPT}`,
  )
})

test('names the memory limit and the output limit', () => {
  assert.match(observe({ exitCode: 137, reason: 'signal', oomKilled: true }), /memory ran out/)
  assert.match(observe({ exitCode: null, reason: 'output-limit' }), /too much output/)
})

test('each format error names the mistake and shows the required form', () => {
  const input = { profile: demo, state: state(), repoDir }
  const none = formatErrorText({ ...input, error: 'cannot_extract_command' })
  const many = formatErrorText({ ...input, error: 'multiple_commands' })
  assert.match(none, /^Your reply held no command block/)
  assert.match(many, /^Your reply held more than one command block/)
  for (const text of [none, many]) {
    assert.ok(text.includes('```command\nls -a\n```'))
    assert.ok(text.endsWith(PROMPT))
  }
})

test('an output above the limit keeps head and tail and counts what is missing', () => {
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

test('marks bytes that the runner left out, also below the limit', () => {
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

test('shows invalid bytes, and a cut never leaves half a surrogate pair', () => {
  assert.equal(
    shortenOutput({ head: new Uint8Array([0x61, 0xff]), tail: NONE, omittedBytes: 0, maxChars: 9 }),
    'a\uFFFD',
  )
  const smile = shortenOutput({ head: bytes('😀'.repeat(50)), tail: NONE, omittedBytes: 0, maxChars: 7 })
  assert.ok(smile.isWellFormed())
  assert.match(smile, /^😀😀\n\[.*\]\n😀$/)
  const odd = shortenOutput({ head: bytes(`a${'😀'.repeat(50)}`), tail: NONE, omittedBytes: 0, maxChars: 8 })
  // 101 code units, of which `a`, one 😀 in front and two behind are shown.
  assert.match(odd, /^a😀\n\[\.\.\. about 94 .*\]\n😀😀$/)
})

test('a cut moves only for a character of two code units that it would split', () => {
  const shown = (text: string) => shortenOutput({ head: bytes(text), tail: NONE, omittedBytes: 0, maxChars: 4 })
  // The last character of one unit, and a pair right behind the cut.
  assert.match(shown('a\uFFFFbcdef'), /^a\uFFFF\n/)
  assert.match(shown('abc😀def'), /^ab\n/)
})

test('an output of line breaks that is too long says how much was left out, and never less than nothing', () => {
  const breaks = bytes('\n'.repeat(2000))
  const text = shortenOutput({ head: breaks, tail: breaks, omittedBytes: 10, maxChars: 1000 })
  assert.match(text, /about 10 characters left out/)
  const some = shortenOutput({ head: bytes(`ab${'\n'.repeat(1998)}`), tail: breaks, omittedBytes: 10, maxChars: 1000 })
  assert.match(some, /^ab\n\[\.\.\. about 10 /)
})

test('accepts the repository’s root with a trailing slash', () => {
  const open = state({ openFile: '/testbed/a/b.py' })
  const line = promptLine({ profile: demo, state: open, repoDir: '/testbed/' })
  assert.ok(line.includes('current file: a/b.py)'))
})

test('the full first message is statement, advice on Git, checklist and directory, separated by blank lines', () => {
  const text = firstMessage({ profile: paper, state: state(), repoDir, statement: '  It breaks.\n\n' })
  assert.ok(text.startsWith('The issue to resolve:\n\nIt breaks.\n\nAbout Git:\n'))
  assert.ok(text.includes('prints at that moment.\n\nBefore you submit, answer each of these'))
  assert.ok(text.endsWith(`the changed code pass?\n\nYour shell stands at the root of the repository.${PROMPT}`))
})

test('each way of being stopped has its own sentence, on its own line', () => {
  const [stopped, memory] = observe({ exitCode: null, reason: 'process-limit', oomKilled: true }).split('\n')
  assert.match(stopped ?? '', /started more processes than the sandbox may hold/)
  assert.match(memory ?? '', /memory ran out/)
  assert.equal(
    observe({ head: bytes('a'), exitCode: null, reason: 'output-limit' }),
    `a\nThe command was stopped because it wrote too much output.${PROMPT}`,
  )
})

test('a silent command that a signal killed names no exit code', () => {
  assert.equal(observe({ exitCode: null, reason: 'signal' }), `The command was killed and printed nothing.${PROMPT}`)
})

test('shows a limit that is no whole second with its fraction', () => {
  const text = observationText({
    profile: demo,
    repoDir,
    timeoutMs: 1500,
    result: {
      exitCode: null,
      reason: 'timeout',
      head: NONE,
      tail: NONE,
      omittedBytes: 0,
      oomKilled: false,
      state: state(),
    },
  })
  assert.equal(text, `The command was stopped because it ran longer than 1.5 seconds.${PROMPT}`)
})

test('shortens an observation at the limit of the profile', () => {
  const cap = demo.observationChars
  assert.equal(observe({ head: bytes('x'.repeat(cap)) }), `${'x'.repeat(cap)}${PROMPT}`)
  assert.ok(observe({ head: bytes('x'.repeat(cap + 1)) }).includes('characters left out here'))
})

test('a shortened output has the length of the limit, with the larger half in front', () => {
  const text = shortenOutput({ head: bytes('abcdefgh'), tail: NONE, omittedBytes: 0, maxChars: 5 })
  assert.equal(text, 'abc\n[... about 3 characters left out here: write to a file or filter to see less ...]\ngh')
  // Nothing of the tail: the cap is 1, and the head takes it.
  const one = shortenOutput({ head: bytes('abc'), tail: NONE, omittedBytes: 0, maxChars: 1 })
  assert.ok(one.startsWith('a\n[') && one.endsWith(']\n'))
})

test('adds up omitted bytes and cut characters, and does not double line breaks at the cut', () => {
  const text = shortenOutput({
    head: bytes('ab\n\ncdef'),
    tail: bytes('ghijkl\n\n'),
    omittedBytes: 100,
    maxChars: 8,
  })
  // Head `ab` and its breaks, tail `ijkl`: 100 + 14 − 4 − 4 = 106.
  assert.equal(text, 'ab\n[... about 106 characters left out here: write to a file or filter to see less ...]\nijkl')
})

test('joins head and tail without a gap, also within a character', () => {
  const euro = bytes('€')
  const text = shortenOutput({ head: euro.subarray(0, 1), tail: euro.subarray(1), omittedBytes: 0, maxChars: 9 })
  assert.equal(text, '€')
})

test('a tail that begins inside a character loses the rest of it, at most three bytes', () => {
  const smile = bytes('😀')
  const shown = (tail: Uint8Array) =>
    shortenOutput({ head: bytes('a'), tail, omittedBytes: 1, maxChars: 99 })
      .split('\n')
      .at(-1)
  assert.equal(shown(new Uint8Array([...smile.subarray(1), 0x62])), 'b')
  assert.equal(shown(new Uint8Array([...smile.subarray(3), 0x62])), 'b')
  // A fourth one is no rest of a character, but broken output.
  assert.equal(shown(new Uint8Array([0x80, 0x80, 0x80, 0x80, 0x62])), '\uFFFDb')
  assert.equal(shown(new Uint8Array([0xc3, 0xa9])), 'é')
  assert.equal(shown(new Uint8Array([0x80])), '')
})

test('keeps a byte order mark in the output', () => {
  assert.equal(shortenOutput({ head: bytes('\uFEFFa'), tail: NONE, omittedBytes: 0, maxChars: 9 }), '\uFEFFa')
  const cut = shortenOutput({ head: bytes('\uFEFFa'), tail: bytes('\uFEFFb'), omittedBytes: 1, maxChars: 9 })
  assert.ok(cut.startsWith('\uFEFFa\n') && cut.endsWith('\n\uFEFFb'))
})

test('removes only line breaks at the end, and all of them', () => {
  assert.equal(shortenOutput({ head: bytes('a\n\nb \n\n'), tail: NONE, omittedBytes: 0, maxChars: 99 }), 'a\n\nb ')
})

const ok = (command: string) => ({ command, formatError: null })
const bad = (formatError: string) => ({ command: null, formatError })

test('one command fence gives its text with its line breaks', () => {
  assert.deepEqual(parseReply('Look.\n```command\nedit 1:1 <<EOF\n    x\nEOF\n```'), ok('edit 1:1 <<EOF\n    x\nEOF'))
})

test('fences with other info words are reasoning', () => {
  assert.deepEqual(parseReply('```python\nprint(1)\n```\n```command\nls\n```\n'), ok('ls'))
})

test('a fence that names a tool holds no command', () => {
  assert.deepEqual(parseReply('```edit 198:198\nx\n```'), bad('cannot_extract_command'))
})

test('no fence, a bare fence and an unclosed fence hold no command', () => {
  for (const text of ['ls', '```\nls\n```', '```command\nls', '']) {
    assert.deepEqual(parseReply(text), bad('cannot_extract_command'), text)
  }
})

test('an empty fence holds no command', () => {
  assert.deepEqual(parseReply('```command\n\n```'), bad('cannot_extract_command'))
})

test('two command fences run nothing, also when the second is cut off', () => {
  assert.deepEqual(parseReply('```command\na\n```\n```command\nb\n```'), bad('multiple_commands'))
  assert.deepEqual(parseReply('```command\na\n```\n```command\nb'), bad('multiple_commands'))
})

test('a longer fence may contain shorter ones', () => {
  assert.deepEqual(
    parseReply('````command\ncat <<E\n```command\nx\n```\nE\n````'),
    ok('cat <<E\n```command\nx\n```\nE'),
  )
})

test('accepts carriage returns before line feeds', () => {
  assert.deepEqual(parseReply('```command\r\nls\r\n```'), ok('ls'))
})

test('a command fence inside an open reasoning fence is quoted text', () => {
  assert.deepEqual(parseReply('```text\n```command\nls\n```'), bad('cannot_extract_command'))
})

test('accepts up to three blanks before a fence and blanks or tabs after it, and four blanks are code', () => {
  assert.deepEqual(parseReply('   ```command\nls\n   ``` \t'), ok('ls'))
  assert.deepEqual(parseReply('    ```command\nls\n```'), bad('cannot_extract_command'))
  assert.deepEqual(parseReply('```command\nls\n    ```\n```'), ok('ls\n    ```'))
})

test('accepts only the exact info string, without more text, other case or a backtick', () => {
  assert.deepEqual(parseReply('```  command  \nls\n```'), ok('ls'))
  for (const info of ['command now', 'commands', 'Command', 'my command', 'com`mand', 'command`']) {
    assert.deepEqual(parseReply(`\`\`\`${info}\nls\n\`\`\``), bad('cannot_extract_command'), info)
  }
})

test('two backticks open no fence, and neither do backticks after other text', () => {
  assert.deepEqual(parseReply('``command\nls\n``'), bad('cannot_extract_command'))
  assert.deepEqual(parseReply('run: ```command\nls\n```'), bad('cannot_extract_command'))
})

test('only as many backticks as opened a fence, or more, alone on a line, close it', () => {
  assert.deepEqual(parseReply('```command\nls\n`````'), ok('ls'))
  assert.deepEqual(parseReply('```command\nls\n``` done\n```'), ok('ls\n``` done'))
  assert.deepEqual(parseReply('```command\nx ```\n```'), ok('x ```'))
})

test('a command of blanks runs nothing, and blanks around a command are kept', () => {
  assert.deepEqual(parseReply('```command\n  \n\t\n```'), bad('cannot_extract_command'))
  assert.deepEqual(parseReply('```command\n  ls \n```'), ok('  ls '))
})

test('an unclosed reasoning fence after the command is no second command', () => {
  assert.deepEqual(parseReply('```command\nls\n```\n```text\nand then'), ok('ls'))
})

test('refuses three commands like two', () => {
  const one = '```command\na\n```\n'
  assert.deepEqual(parseReply(one.repeat(3)), bad('multiple_commands'))
})
