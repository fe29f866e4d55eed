/** Said here as well as where they are played, because this is a matter of milliseconds: moved code moves its plants. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { PLANTS } from '../planted/plants.ts'
import { applyEdit } from '../support/planted/planted-tree.ts'

const root = join(import.meta.dirname, '../..')

test('every plant fits its file exactly once, and has a name of its own', () => {
  assert.ok(PLANTS.length >= 60, `${PLANTS.length} plants were found`)
  const misfits = PLANTS.flatMap((plant) => {
    try {
      applyEdit(readFileSync(join(root, plant.file), 'utf8'), plant)
      return []
    } catch (error) {
      return [`${plant.name}: ${(error as Error).message}`]
    }
  })
  assert.deepEqual(misfits, [])
  assert.equal(new Set(PLANTS.map(({ name }) => name)).size, PLANTS.length)
})

test('refuses a plant that fits nowhere or twice, changes nothing or is no TypeScript, and names its file', () => {
  const edit = { file: 'src/a.ts', replace: 'x', by: 'y' }
  assert.equal(applyEdit('let x = 1\n', edit), 'let y = 1\n')
  assert.equal(applyEdit("const a = 'x'\n", { ...edit, by: '$&$1' }), "const a = '$&$1'\n")
  for (const [text, by, message] of [
    ['let z = 1\n', 'y', /once in src\/a\.ts, found it 0 times/],
    ['let x = x + 1\n', 'y', /found it 2 times/],
    ['let x = 1\n', 'x', /to change src\/a\.ts/],
    ['let x = 1\n', ') y', /Expected the plant to leave TypeScript in src\/a\.ts/],
  ] as const) {
    assert.throws(() => applyEdit(text, { ...edit, by }), message)
  }
})
