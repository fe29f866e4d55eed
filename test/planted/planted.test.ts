/**
 * The tests are tested: each plant is one false statement in a copy of the tree, and the test that stands beside it in the table
 * must fail there, by itself, and pass in a copy without it. `--test-name-pattern` chooses plants by name.
 */
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { type Edit, plantTree } from '../support/planted/planted-tree.ts'
import { hear, hearAll, type Testimony } from '../support/planted/witness.ts'
import { createWarmPython } from '../support/warm-process.ts'
import { PLANTS } from './plants.ts'

const root = join(import.meta.dirname, '../..')
// The stack's bundle is made of the original's workflows; Python's caches would lie beside files that the copies share.
useEnvironment({ after }, { LONGHAUL_BUNDLE: undefined, PYTHONDONTWRITEBYTECODE: '1' })
const running = new AbortController()
const python = createWarmPython(process.env['LONGHAUL_PYTHON'] ?? '')
const honest = new Map<string, Promise<Map<string, Testimony>>>()

after(async () => {
  running.abort(new Error('the test is over'))
  await python.close()
})

async function inTree<T>(edit: Edit | null, work: (at: string) => Promise<T>): Promise<T> {
  const tree = await plantTree(root, edit)
  try {
    return await work(tree.root)
  } finally {
    tree.remove()
  }
}

/** All witnesses of a file, once, in a copy as true as the original. */
function hearHonest(file: string): Promise<Map<string, Testimony>> {
  const tests = [...new Set(PLANTS.filter(({ seenBy }) => seenBy.file === file).map(({ seenBy }) => seenBy.test))]
  const known = honest.get(file) ?? inTree(null, (at) => hearAll(at, { file, tests }, running.signal, python))
  honest.set(file, known)
  return known
}

describe('planted', { concurrency: availableParallelism() }, () => {
  for (const { name, seenBy, ...edit } of PLANTS) {
    test(name, async (t) => {
      const before = (await hearHonest(seenBy.file)).get(seenBy.test)
      if (before?.end === 'skipped') return t.skip(before.why)
      assert.deepEqual(before, { end: 'passed' }, 'the test must pass without the plant')
      const { end } = await inTree(edit, (at) => hear(at, seenBy, running.signal, python))
      assert.equal(end, 'failed', `"${seenBy.test}" of ${seenBy.file} does not see the plant`)
    })
  }
})
