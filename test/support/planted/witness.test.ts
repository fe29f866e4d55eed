/** Who is believed: a test that ran by itself and failed by itself. Everything else around it is no witness of a plant. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { HANG_MS } from '../hang.ts'
import { python, withoutPython } from '../python.ts'
import { createWarmPython } from '../warm-process.ts'
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

test('reports whether a test passes, fails or is skipped, independent of its neighbours', async () => {
  const neighbours = `test('other', () => assert.fail())\n`
  assert.equal(await hearIn(`${neighbours}test('one (of [two])?', () => {})\n`), 'passed')
  assert.equal(await hearIn(`describe('s', () => test('one (of [two])?', () => assert.fail()))\n`), 'failed')
  assert.equal(await hearIn(`test('one (of [two])?', { skip: 'no engine' }, () => {})\n`), 'skipped')
})

test('refuses a witness with no or two titles, a file that does not load or ends early, or a failing hook', async () => {
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

test('a planted copy differs in one file, and the original keeps its bytes', async () => {
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
    tree.remove()
  }
  await assert.rejects(plantTree(root, { file: 'a.ts', replace: 'three', by: 'four' }), /found it 0 times/)
})

test('a warm interpreter runs tests of two trees with the modules of each', {
  skip: withoutPython,
}, async () => {
  const warm = createWarmPython(python ?? '', ['pytest'])
  const witness = { file: 'trainer/tests/test_one.py', test: 'test_one' }
  try {
    await mkdir(join(root, 'trainer/tests'), { recursive: true })
    await writeFile(join(root, 'trainer/pyproject.toml'), '')
    await writeFile(join(root, 'trainer/longhaul_trainer.py'), 'one = 1\n')
    await writeFile(
      join(root, witness.file),
      `import sys
import longhaul_trainer
print('output of the test')
def test_one():
    repository = ${JSON.stringify(join(import.meta.dirname, '../../../trainer'))}
    assert not [path for path in sys.path if path.startswith(repository)]
    # multiprocessing remembers the interpreter's own program.
    files = [getattr(one, '__file__', None) or '' for name, one in sys.modules.items() if name != '__mp_main__']
    assert not [file for file in files if file.startswith(repository)]
    assert longhaul_trainer.one == 1
`,
    )
    const tree = await plantTree(root, { file: 'trainer/longhaul_trainer.py', replace: '= 1', by: '= 2' })
    try {
      assert.deepEqual(await hear(root, witness, signal, warm), { end: 'passed' })
      const told = await hear(tree.root, witness, signal, warm)
      assert.ok(told.end === 'failed' && /assert 2 == 1/.test(told.why), JSON.stringify(told))
      assert.deepEqual(await hear(root, witness, signal, warm), { end: 'passed' })
      await writeFile(join(root, witness.file), 'import sys\nsys.exit(0)\n')
      await assert.rejects(hear(root, witness, signal, warm), /to run by themselves/)
    } finally {
      tree.remove()
    }
  } finally {
    await warm.close()
  }
})

test('a warm call over its time limit is ended, and the next one is answered', {
  skip: withoutPython,
}, async () => {
  const warm = createWarmPython(python ?? '', ['pytest'])
  const env = { PYTHONPATH: root }
  const call = (timeoutMs: number, module: string) =>
    warm.run({ command: '', args: ['-m', module], cwd: root, env, timeoutMs })
  try {
    await writeFile(join(root, 'waits.py'), 'import time\ntime.sleep(600)\n')
    await writeFile(join(root, 'ends.py'), 'import os, sys\nprint(sorted(os.environ))\nsys.exit(3)\n')
    const ended = { exitCode: 3, tail: "['PYTHONPATH']\n", timedOut: false, wasSilent: false }
    assert.deepEqual(await call(HANG_MS, 'ends'), ended)
    const { exitCode, timedOut } = await call(2_000, 'waits')
    assert.deepEqual([exitCode, timedOut], [null, true])
    assert.equal((await call(HANG_MS, 'ends')).exitCode, 3)
  } finally {
    await warm.close()
  }
})
