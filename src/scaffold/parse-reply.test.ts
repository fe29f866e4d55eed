import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseReply } from './parse-reply.ts'

const ok = (command: string) => ({ command, formatError: null })
const bad = (formatError: string) => ({ command: null, formatError })

test('one command fence gives its text, line breaks kept', () => {
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

test('a fence with nothing in it holds no command', () => {
  assert.deepEqual(parseReply('```command\n\n```'), bad('cannot_extract_command'))
})

test('two command fences run nothing, also when the second is cut off', () => {
  assert.deepEqual(parseReply('```command\na\n```\n```command\nb\n```'), bad('multiple_commands'))
  assert.deepEqual(parseReply('```command\na\n```\n```command\nb'), bad('multiple_commands'))
})

test('a longer fence may hold shorter ones', () => {
  assert.deepEqual(
    parseReply('````command\ncat <<E\n```command\nx\n```\nE\n````'),
    ok('cat <<E\n```command\nx\n```\nE'),
  )
})

test('carriage returns before line feeds do not hide the fence', () => {
  assert.deepEqual(parseReply('```command\r\nls\r\n```'), ok('ls'))
})

test('a command fence inside an open reasoning fence is quoted text', () => {
  assert.deepEqual(parseReply('```text\n```command\nls\n```'), bad('cannot_extract_command'))
})
