import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import { checkPlaces } from './check-places.ts'
import { loadRecipe } from './load-recipe.ts'

const dirs = [fileURLToPath(new URL('../../../recipes', import.meta.url))]

test('names everything that a run of its kind lacks at once', async () => {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-places-'))
  try {
    await writeFile(join(root, 'rows.jsonl'), '')
    const overrides = { model: { base: 'no-model' } }
    const { recipe: mini } = await loadRecipe({ name: 'mini', dirs, overrides })
    const train: SuiteSource = { kind: 'rows', path: 'no-rows.jsonl', limit: null }
    const heldOut: SuiteSource = { kind: 'rows', path: 'rows.jsonl', limit: null }
    const recipe = { ...mini, data: { ...mini.data, train, heldOut } }
    const places = { findFile: (path: string) => join(root, path), findModel: (base: string) => join(root, base) }
    await assert.rejects(checkPlaces(recipe, 'train', places), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'Config.NotFound')
      assert.match(error.message, /data\.train\.path: no-rows\.jsonl \(looked for at .*no-rows\.jsonl\)/)
      assert.match(error.message, /model\.base: no-model/)
      assert.doesNotMatch(error.message, /heldOut/)
      return true
    })
    await checkPlaces(recipe, 'eval', places)
    await checkPlaces(recipe, 'gate', places)
    const evidence = { ...heldOut, evidence: 'no-evidence.jsonl' } as SuiteSource
    const asked = { ...recipe, data: { ...recipe.data, heldOut: evidence } }
    await assert.rejects(checkPlaces(asked, 'eval', places), /data\.heldOut\.evidence: no-evidence\.jsonl/)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
})
