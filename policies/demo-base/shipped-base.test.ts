import assert from 'node:assert/strict'
import { readFile, stat } from 'node:fs/promises'
import { test } from 'node:test'
import type { SandboxState } from '../../src/contracts/episodes.types.ts'
import { formatErrorText, promptLine } from '../../src/scaffold/observation.ts'
import { scaffoldProfile } from '../../src/scaffold/profiles.ts'

const model = (file: string): URL => new URL(`model/${file}`, import.meta.url)
const profile = scaffoldProfile('demo')
const state: SandboxState = {
  cwd: '/testbed',
  environment: '',
  umask: '0022',
  openFile: null,
  windowTop: 0,
  submitted: false,
}

async function vocabulary(): Promise<Set<string>> {
  const tokenizer = JSON.parse(await readFile(model('tokenizer.json'), 'utf8'))
  return new Set(Object.keys(tokenizer.model.vocab))
}

/** Byte-level spelling of the characters that occur here. */
const spelled = (text: string): string => text.replaceAll(' ', 'Ġ').replaceAll('\n', 'Ċ')

test('the base knows the texts of scaffold and tools as single tokens, so they have not changed since it was made', async () => {
  const known = await vocabulary()
  const at = { profile, state, repoDir: '/testbed' }
  const [fault = ''] = formatErrorText({ ...at, error: 'cannot_extract_command' }).split(' Write')
  const [faults = ''] = formatErrorText({ ...at, error: 'multiple_commands' }).split(' Write')
  const [before = '', after = ''] = promptLine(at).split('none')
  for (const text of [profile.systemPrompt, fault, faults, `\n\n${before}`, after]) {
    assert.ok(known.has(spelled(text)), `${JSON.stringify(text)} is no token: make the base again (make-base.ts)`)
  }
  const tools = await readFile(new URL('../../src/adapters/docker/sandbox/runner/tools.sh', import.meta.url), 'utf8')
  const said = [
    'File updated. Check indentation and repeated lines.',
    ' lines total)]',
    ' more lines above)',
    ' match in ',
  ]
  for (const text of said) {
    assert.ok(tools.includes(text), `the tools no longer say ${JSON.stringify(text)}`)
    assert.ok(known.has(spelled(text)) || known.has(spelled(`${text}\n`)), `${JSON.stringify(text)} is no token`)
  }
})

test('the shipped files are small, name no pad token and no sampling defaults', async () => {
  const files = [
    'config.json',
    'model.safetensors',
    'tokenizer.json',
    'tokenizer_config.json',
    'MANIFEST.json',
    'COMMITTED',
  ]
  const sizes = await Promise.all(files.map(async (file) => (await stat(model(file))).size))
  assert.ok(sizes.reduce((sum, size) => sum + size, 0) < 4_000_000)
  const config = JSON.parse(await readFile(model('config.json'), 'utf8'))
  assert.equal(config.pad_token_id ?? null, null)
  await assert.rejects(stat(model('generation_config.json')), { code: 'ENOENT' })
})
