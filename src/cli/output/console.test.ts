import assert from 'node:assert/strict'
import { Writable } from 'node:stream'
import { test } from 'node:test'
import { LonghaulError } from '../../contracts/errors.ts'
import { type Console, createConsole, printError } from './console.ts'

/** What names, statements and outputs of agents, tests and servers may hold, and what a terminal would do with it. */
const HOSTILE: [what: string, text: string][] = [
  ['writes to the clipboard', '\u001b]52;c;cm0gLXJmIH4=\u0007'],
  ['writes to the clipboard, in C1', '\u009d52;c;cm0gLXJmIH4=\u009c'],
  ['clears the screen', '\u001b[2J\u001b[H'],
  ['overwrites the line above', '\u001b[1A\u001b[2Kok resolved'],
  ['overwrites its own line', 'FAILED\rok resolved'],
  ['hides a link', '\u001b]8;;http://evil.test\u001b\\log\u001b]8;;\u001b\\'],
  ['asks the terminal for an answer', '\u001b[6n\u001b[c\u001bP+q544e\u001b\\'],
  ['changes the character set', '\u001b(0\u000e'],
  ['turns the direction', 'admin\u202e\u2066// check\u2069'],
  ['hides words', 'a\u200bb\u{e0041}\ufeff'],
  ['ends a page', '\u2028\u000c'],
  ['begins a sequence that the next text ends', '\u001b['],
]
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const UNSAFE = /[\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u0000-\u0008\u000b-\u001f\u007f-\u009f]/u

/** A console as commands have it, and all that it writes. */
function recorded(env: NodeJS.ProcessEnv, isTTY: boolean): { console: Console; written: () => string } {
  let text = ''
  const stream = (): Writable & { isTTY: boolean } =>
    Object.assign(new Writable({ write: (chunk, _, done) => done(void (text += String(chunk))) }), { isTTY })
  return { console: createConsole({ stdout: stream(), stderr: stream(), env }), written: () => text }
}

for (const [where, env, isTTY] of [
  ['terminal', {}, true],
  ['pipe', {}, false],
  ['job', { CI: 'true' }, false],
] as const) {
  for (const [what, text] of HOSTILE) {
    test(`a text that ${what} is harmless on a ${where}: in a result, a line, a record and an error`, () => {
      const { console, written } = recorded(env, isTTY)
      console.out(`task ${text} end`)
      console.err(`task ${text} end`)
      console.record({ task: text })
      printError(new LonghaulError({ code: 'Task.Invalid', message: `Expected ${text}`, details: { row: text } }), {
        console,
        json: true,
      })
      assert.doesNotMatch(written(), UNSAFE)
      assert.equal(written().match(/^task .*nd$/gm)?.length, 2, written())
    })
  }
}

test('lines, tabs, emoji and other scripts stay as they are', () => {
  const text = 'naïve 文字 😀\tcolumn\nעברית and العربية\n'
  const { console, written } = recorded({}, true)
  console.out(text)
  assert.equal(written(), text)
})

test('a terminal without a size is as wide and as high as one of unknown size', () => {
  const stream = (): Writable & { isTTY: boolean; columns: number; rows: number } =>
    Object.assign(new Writable({ write: (_, __, done) => done() }), { isTTY: true, columns: 0, rows: 0 })
  const { columns, terminal } = createConsole({ stdout: stream(), stderr: stream(), env: {} })
  assert.deepEqual([columns, terminal?.columns(), terminal?.rows()], [null, 100, 24])
})
