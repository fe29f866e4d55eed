/** Mutation testing: what its groups name is there, and a stored survivor is tested again only at its place. */
import assert from 'node:assert/strict'
import { existsSync, globSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { groupFiles, KERNELS } from '../../bench/support/mutation/groups.ts'
import { isInPlace } from '../../bench/support/mutation/mutate-typescript.ts'

const root = join(import.meta.dirname, '../..')

test('every kernel is a file, and each group has its tests', () => {
  const kernels = KERNELS.flat()
  assert.deepEqual(
    kernels.filter((file) => !existsSync(join(root, file))),
    [],
  )
  const groups = groupFiles([...kernels, 'src/domain/instant.ts', 'src/scaffold/observation.ts'])
  assert.equal(groups.length, KERNELS.length + 2)
  for (const { tests } of groups) assert.ok(globSync(tests, { cwd: root }).length > 5, tests)
})

test('a survivor under a comment that grew by a line is no longer in place', () => {
  const source = '/** Why. */\nconst isLarge =\n  count > 3\n'
  const survivor = { line: 3, column: 3, end: { line: 3, column: 12 }, original: 'count > 3' }
  assert.equal(isInPlace(source, survivor), true)
  assert.equal(isInPlace(source.replace('Why.', 'Why so.'), survivor), true)
  assert.equal(isInPlace(source.replace('Why. ', 'Why,\n * in two lines.\n '), survivor), false)
})
