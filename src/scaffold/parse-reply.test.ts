import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseReply } from './parse-reply.ts'

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
