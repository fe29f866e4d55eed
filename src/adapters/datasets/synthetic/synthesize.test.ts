import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { composeTask, splitOf } from './compose.ts'
import { functionText, testArguments } from './functions.ts'
import { OPERATORS, operatorOf } from './operators.ts'
import { synthesizeSuite, synthesizeTask } from './synthesize.ts'

const source = (index: number, split: 'train' | 'eval' = 'train') =>
  ({ family: 'one-wrong-line', seed: 11, split, index }) as const

/** Runs `body` in the unpacked repository of a task. */
async function inRepository(index: number, body: (folder: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-task-'))
  try {
    const tar = await synthesizeTask(source(index)).repoTar()
    execFileSync('tar', ['-x', '--no-same-owner', '-C', folder], { input: tar })
    body(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const git = (folder: string, args: string[], input?: string): string =>
  execFileSync('git', args, {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(input === undefined ? {} : { input }),
  })

test('the same source gives the same row and the same bytes; another seed another repository under the same id', async () => {
  const [first, second] = [synthesizeTask(source(5)), synthesizeTask(source(5))]
  assert.deepEqual(first.row, second.row)
  assert.deepEqual(await first.repoTar(), await second.repoTar())
  const other = synthesizeTask({ ...source(5), seed: 12 })
  assert.equal(other.row.instance_id, first.row.instance_id)
  assert.notEqual(other.row.image_name, first.row.image_name)
})

test('a known source gives the known commit, on every machine and version', () => {
  assert.equal(synthesizeTask(source(0)).row.base_commit, '99b42450116e2314ec87e9fdf03088a9f9ead196')
})

test('Git takes the repository: sound, clean after a touch, at the commit of the row', async () => {
  await inRepository(7, (folder) => {
    const { row, composed } = synthesizeTask(source(7))
    assert.equal(git(folder, ['fsck', '--full', '--strict']), '')
    assert.equal(git(folder, ['rev-parse', 'HEAD']).trim(), row.base_commit)
    utimesSync(join(folder, composed.targetLine.path), new Date(), new Date())
    assert.equal(git(folder, ['status', '--porcelain']), '')
    assert.equal(git(folder, ['diff']), '')
  })
})

test('gold and test patch are what Git itself would write, and they apply', async () => {
  for (const index of [0, 1, 2, 3, 4, 5]) {
    await inRepository(index, (folder) => {
      const { row } = synthesizeTask(source(index))
      git(folder, ['apply', '-'], row.patch)
      assert.equal(git(folder, ['diff']), row.patch)
      git(folder, ['apply', '-'], row.test_patch)
      git(folder, ['add', '-A'])
      assert.equal(git(folder, ['diff', '--cached', '--', 'tests']), row.test_patch)
    })
  }
})

test('with the gold patch every assertion of the hidden tests holds, without it the target fails', async () => {
  const runTests =
    'import runpy,sys; m=runpy.run_path(sys.argv[1]); bad=[]\nfor n,f in m.items():\n  if n.startswith("test_"):\n    try: f()\n    except AssertionError: bad.append(n)\nprint(",".join(bad))'
  const failing = (folder: string, path: string): string =>
    execFileSync('python3', ['-B', '-c', runTests, path], { cwd: folder, encoding: 'utf8' }).trim()
  for (const index of [0, 1, 2, 3, 4, 5, 6, 7]) {
    await inRepository(index, (folder) => {
      const { row } = synthesizeTask(source(index))
      git(folder, ['apply', '-'], row.test_patch)
      const [path = '', name = ''] = (row.FAIL_TO_PASS[0] ?? '').split('::')
      assert.equal(failing(folder, path), name)
      git(folder, ['apply', '-'], row.patch)
      assert.equal(failing(folder, path), '')
      assert.equal(readFileSync(join(folder, path), 'utf8').split('\ndef ').length - 1, 9)
    })
  }
})

test('no two operators of a family agree on all tested arguments, so no wrong one passes', () => {
  for (const [kind, operators] of Object.entries(OPERATORS) as [
    keyof typeof OPERATORS,
    (typeof OPERATORS)['guard'],
  ][]) {
    const constants = kind === 'constant' ? Array.from({ length: 98 }, (_, index) => index + 2) : [0]
    const results = operators.flatMap(({ symbol }) =>
      constants.map((constant) =>
        JSON.stringify(
          testArguments(kind).map(([first = 0, second = constant]) => operatorOf(kind, symbol).evaluate(first, second)),
        ),
      ),
    )
    assert.equal(new Set(results).size, results.length, kind)
  }
})

test('targets and neighbours of one split never occur in the other', () => {
  for (const split of ['train', 'eval'] as const) {
    for (const { composed } of synthesizeSuite({ seed: 3, split, count: 60, offset: 0 })) {
      for (const spec of composed.modules.flatMap((module) => module.functions)) assert.equal(splitOf(spec), split)
    }
  }
})

test('each task has one wrong line, nine different functions, distinct parameters and decoys of verb and noun', () => {
  for (let index = 0; index < 200; index += 1) {
    const { modules, target, targetLine, statement, level } = composeTask(source(index, 'eval'))
    const functions = modules.flatMap((module) => module.functions)
    assert.equal(new Set(functions.map(({ verb, noun }) => `${verb}_${noun}`)).size, 9)
    assert.ok(functions.some(({ verb, noun }) => verb === target.verb && noun !== target.noun))
    assert.ok(functions.some(({ verb, noun }) => verb !== target.verb && noun === target.noun))
    for (const module of modules) {
      const parameters = module.functions.flatMap((spec) => spec.parameters)
      assert.equal(new Set(parameters).size, parameters.length)
    }
    const home = modules.find(({ path }) => path === targetLine.path)
    assert.equal(home?.lines[targetLine.definitionLine - 1], functionText(target).lines[0])
    assert.equal(home?.lines[targetLine.wrongLine - 1], targetLine.wrongText)
    assert.notEqual(targetLine.wrongText, targetLine.rightText)
    assert.equal(statement.includes(`${target.verb}_${target.noun}`), level !== 3)
    assert.equal(statement.includes(targetLine.path), level === 1)
  }
})

test('hidden tests are neither in the repository nor in the statement', async () => {
  const { row } = synthesizeTask(source(9))
  await inRepository(9, (folder) => {
    assert.ok(!git(folder, ['ls-files']).includes('test'))
    assert.ok(!row.problem_statement.includes('tests/'))
  })
})

test('names of hidden tests cannot be told from the repository: nothing of it stands in them, and another index has others', () => {
  const [one, other, again] = [0, 1, 0].map((index) =>
    synthesizeTask({ family: 'one-wrong-line', seed: 1, split: 'train', index }),
  )
  assert.ok(one !== undefined && other !== undefined && again !== undefined)
  const idsOf = ({ row }: typeof one): string[] => [...row.FAIL_TO_PASS, ...row.PASS_TO_PASS]
  assert.deepEqual(idsOf(again), idsOf(one))
  assert.equal(new Set([...idsOf(one), ...idsOf(other)]).size, 18)
  const words = one.composed.modules.flatMap(({ name, functions }) => [
    ...name.split('.'),
    ...functions.flatMap(({ verb, noun }) => [verb, noun]),
  ])
  for (const id of idsOf(one)) {
    assert.match(id, /^tests\/test_[0-9a-f]{16}\.py::test_[0-9a-f]{16}$/)
    assert.deepEqual(
      words.filter((word) => id.includes(word)),
      [],
    )
  }
})
