/**
 * The tests are tested: each plant is one false statement in a copy of the tree, and the test that stands beside it in the table
 * must fail there, by itself, and pass in a copy without it. `--test-name-pattern` chooses plants by name.
 */
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { type Edit, plantTree } from '../support/planted/planted-tree.ts'
import { hear, type Testimony, type Witness } from '../support/planted/witness.ts'
import { PLANTS } from './plants.ts'

const root = join(import.meta.dirname, '../..')
const heard = new Map<string, Promise<Testimony>>()
const running = new AbortController()

after(() => running.abort(new Error('the test is over')))

async function hearPlanted(edit: Edit | null, witness: Witness): Promise<Testimony> {
  const tree = await plantTree(root, edit)
  try {
    return await hear(tree.root, witness, running.signal)
  } finally {
    await tree.remove()
  }
}

/** Once for all plants of one witness. */
function hearUnplanted(witness: Witness): Promise<Testimony> {
  const key = `${witness.file} ${witness.test}`
  const known = heard.get(key) ?? hearPlanted(null, witness)
  heard.set(key, known)
  return known
}

describe('planted', { concurrency: availableParallelism() }, () => {
  for (const { name, seenBy, ...edit } of PLANTS) {
    test(name, async (t) => {
      const honest = await hearUnplanted(seenBy)
      if (honest.end === 'skipped') return t.skip(honest.why)
      assert.deepEqual(honest, { end: 'passed' }, 'without the plant')
      const { end } = await hearPlanted(edit, seenBy)
      assert.equal(end, 'failed', `${seenBy.file} does not see the plant`)
    })
  }
})
