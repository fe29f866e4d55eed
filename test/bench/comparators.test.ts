/** A rival that refuses a command is fast: what it says came of the command is held against what the command does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COMMANDS, faultOf, type Ran, type RecordedCommand } from '../../bench/support/sandbox-commands.ts'

const commandOf = (text: string): RecordedCommand =>
  COMMANDS.find(({ command }) => command === text) ?? assert.fail(`${text} is no recorded command`)
const ran = (changes: Partial<Ran> = {}): Ran => {
  const output = changes.output ?? ''
  return { ms: 5, exitCode: 0, isTimeout: false, output, outputBytes: output.length, ...changes }
}

test('a command that did what it should is no fault, as bytes or as text', () => {
  assert.equal(faultOf(commandOf('echo hello'), ran({ output: 'hello\n' })), null)
  assert.equal(faultOf(commandOf('echo hello'), ran({ output: 'hello\r\n' }), { isText: true }), null)
  assert.equal(faultOf(commandOf('exit 3'), ran({ exitCode: 3 })), null)
  assert.equal(faultOf(commandOf('sleep 1'), ran({ ms: 1003 })), null)
  assert.equal(faultOf(commandOf('sleep 30'), ran({ ms: 1003, exitCode: null, isTimeout: true })), null)
  const cut = ran({ output: 'some text of forty characters and a bit\n'.repeat(100), outputBytes: 100_000 })
  assert.equal(faultOf(commandOf('cat data/100.txt'), cut), null)
})

test('each of a wrong duration, exception, exit code, output or early end is a fault', () => {
  assert.match(faultOf(commandOf('sleep 1'), ran({ ms: 62 })) ?? '', /took 62 ms, it takes 1000/)
  assert.match(faultOf(commandOf('true'), ran({ exitCode: null, output: 'ReadError: ' })) ?? '', /ended with null/)
  assert.match(faultOf(commandOf('false'), ran()) ?? '', /ended with 0, expected 1/)
  assert.match(faultOf(commandOf('echo hello'), ran()) ?? '', /said ""/)
  assert.match(faultOf(commandOf('cat data/100.txt'), ran({ output: 'x' })) ?? '', /said "x"/)
  assert.match(faultOf(commandOf('sleep 1'), ran({ ms: 1500, isTimeout: true })) ?? '', /ended at its deadline/)
  assert.match(faultOf(commandOf('sleep 30'), ran({ ms: 1003 })) ?? '', /was not ended at its deadline/)
})

test('every recorded command matches its description, and an empty output matches only commands that print nothing', () => {
  assert.ok(COMMANDS.length > 50)
  for (const { command, expected } of COMMANDS) {
    if (expected.exit === 'timeout') continue
    const { output } = expected
    if (typeof output === 'string') continue
    assert.ok(!output.test(''), command)
  }
})
