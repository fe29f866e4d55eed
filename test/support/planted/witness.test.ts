/** Who is believed: a test that ran by itself and failed by itself. Everything else around it is no witness of a plant. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { plantTree } from './planted-tree.ts'
import { hear, testimoniesOf } from './witness.ts'

const HEAD = `import assert from 'node:assert/strict'\nimport { before, describe, test } from 'node:test'\n`
const signal = new AbortController().signal
let root: string

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'witness-'))
  await writeFile(join(root, 'a.ts'), 'export const one = 1\n')
})
after(() => rm(root, { recursive: true, force: true }))

async function hearIn(code: string, title = 'one (of [two])?'): Promise<string> {
  await writeFile(join(root, 'a.test.ts'), `${HEAD}${code}`)
  return (await hear(root, { file: 'a.test.ts', test: title }, signal)).end
}

test('a test that passes, fails or is skipped says so, independent of its neighbours', async () => {
  const neighbours = `test('other', () => assert.fail())\n`
  assert.equal(await hearIn(`${neighbours}test('one (of [two])?', () => {})\n`), 'passed')
  assert.equal(await hearIn(`describe('s', () => test('one (of [two])?', () => assert.fail()))\n`), 'failed')
  assert.equal(await hearIn(`test('one (of [two])?', { skip: 'no engine' }, () => {})\n`), 'skipped')
})

test('no such title, two of it, a file that does not load or ends early, a hook that fails: no witness', async () => {
  const one = `test('one (of [two])?', () => {})\n`
  for (const code of [
    `test('another', () => assert.fail())\n`,
    `${one}${one}`,
    `import './not-there.ts'\n${one}`,
    `process.exit(0)\n${one}`,
    `describe('s', () => { before(() => assert.fail()); ${one} })\n`,
    `describe('s', () => { before(() => assert.fail()); test('one (of [two])?', () => assert.fail()) })\n`,
  ]) {
    await assert.rejects(hearIn(code), /to run by themselves/, code)
  }
  const witness = { file: 'trainer/tests/test_a.py', test: 'test_b' }
  const result = { file: witness.file, seconds: 1, passed: 0, skips: [] }
  const failed = (title: string, error: string) =>
    testimoniesOf({ file: witness.file, tests: [witness.test] }, [
      { ...result, failures: [{ test: title, error }] },
    ]).get(witness.test)?.end
  assert.equal(failed('test_b[case]', 'assert 1 == 2'), 'failed')
  for (const [title, error] of [
    ['test_b', 'setup: no torch'],
    ['test_bc', 'assert 1 == 2'],
    ['(pytest)', 'collected no test'],
  ] as const) {
    assert.throws(() => failed(title, error), /to run by themselves/)
  }
})

test('a planted copy differs in one file, which is its own: the original keeps its bytes', async () => {
  await writeFile(
    join(root, 'a.test.ts'),
    `${HEAD}import { one } from './a.ts'\ntest('one', () => assert.equal(one, 1))\n`,
  )
  const witness = { file: 'a.test.ts', test: 'one' }
  const tree = await plantTree(root, { file: 'a.ts', replace: '= 1', by: '= 2' })
  try {
    assert.equal((await hear(tree.root, witness, signal)).end, 'failed')
    assert.equal((await hear(root, witness, signal)).end, 'passed')
  } finally {
    await tree.remove()
  }
  await assert.rejects(plantTree(root, { file: 'a.ts', replace: 'three', by: 'four' }), /found it 0 times/)
})
