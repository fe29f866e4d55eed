import assert from 'node:assert/strict'
import { readFile, stat } from 'node:fs/promises'
import { test } from 'node:test'
import { scaffoldProfile } from '../../src/scaffold/profiles.ts'
import { fixedTexts } from './fixed-texts.ts'

const model = (file: string): URL => new URL(`model/${file}`, import.meta.url)

test('texts of the prompt and frames of tools are single tokens of the base, so they have not changed since it was made', async () => {
  const tokenizer = JSON.parse(await readFile(model('tokenizer.json'), 'utf8')) as {
    added_tokens: { content: string }[]
  }
  const known = new Set(tokenizer.added_tokens.map(({ content }) => content))
  for (const text of fixedTexts(scaffoldProfile('paper'))) {
    assert.ok(known.has(text), `${JSON.stringify(text)} is no token: make the base again (npm run policy:repair-base)`)
  }
  const tools = await readFile(new URL('../../src/adapters/docker/sandbox/runner/tools.sh', import.meta.url), 'utf8')
  for (const text of [
    'File updated. Check indentation and repeated lines.',
    ' lines total)]',
    'Make it longer or use',
  ]) {
    assert.ok(tools.includes(text), `the tools no longer say ${JSON.stringify(text)}`)
  }
})

test('the shipped files hold between five and fifteen million parameters in bf16, and no sampling defaults', async () => {
  const card = JSON.parse(await readFile(new URL('base.json', import.meta.url), 'utf8')) as { parameters: number }
  assert.ok(card.parameters >= 5e6 && card.parameters <= 15e6)
  const { size } = await stat(model('model.safetensors'))
  assert.ok(size < 24_000_000 && size > 2 * card.parameters)
  await assert.rejects(stat(model('generation_config.json')), { code: 'ENOENT' })
})
