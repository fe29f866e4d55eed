/** The runner of mutants, on a small project: what a test sees is killed, what no test sees is named. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { explains, survivorText } from '../../bench/support/mutation/explained-survivors.ts'
import { groupFiles } from '../../bench/support/mutation/groups.ts'
import { mutateTypeScript } from '../../bench/support/mutation/mutate-typescript.ts'

const REPOSITORY = join(import.meta.dirname, '..', '..')

const FILES = {
  'package.json': '{ "type": "module" }',
  // `LIMIT` acts when the module loads, `isOver` when it is called, and nothing calls `unseen`.
  'src/domain/limit.ts': `
const LIMIT = -3
export function isOver(value: number): boolean {
  return value > LIMIT
}
export function unseen(): boolean {
  return true
}
`,
  'src/domain/limit.test.ts': `
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isOver } from './limit.ts'
test('over the limit', () => assert.equal(isOver(-2), true))
test('far below it', () => assert.equal(isOver(-9), false))
`,
  'docs/mutation-testing.md':
    '### `src/domain/limit.ts`\n\n- `value > LIMIT → value >= LIMIT`: the test leaves the limit itself out\n',
}

/** In its own process, because the hooks of the modules stay. */
const COLLECT_ALL = `
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { TEST_FILES } from './bench/support/mutation/groups.ts'
import { createModuleGenerations } from './bench/support/mutation/module-generations.ts'
const modules = createModuleGenerations(process.cwd())
let [files, tests] = [0, 0]
for (const file of globSync(TEST_FILES)) {
  files += 1
  tests += (await modules.load(join(process.cwd(), file), { number: 1, isCounting: false })).length
}
console.log(JSON.stringify({ files, tests }))
`

test('every unit test of the mutated folders can run against mutants', () => {
  const args = ['--input-type=module', '--eval', COLLECT_ALL]
  const { files, tests } = JSON.parse(execFileSync(process.execPath, args, { cwd: REPOSITORY, encoding: 'utf8' })) as {
    files: number
    tests: number
  }
  assert.ok(files > 60 && tests > 600, `${tests} tests of ${files} files`)
})

test('a test that changes the environment puts it back after it failed, and one that needs more of its context says so', async () => {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-mutate-'))
  try {
    const file = join(root, 'context.test.ts')
    await writeFile(
      file,
      `import { test } from 'node:test'
test('fails', (t) => { t.after(() => { globalThis.putBack = (globalThis.putBack ?? '') + 'a' }); t.after(() => { globalThis.putBack += 'b' }); throw new Error('no') })
test('asks', (t) => t.mock.timers.enable())
`,
    )
    const play = `
import { createModuleGenerations } from '${REPOSITORY}/bench/support/mutation/module-generations.ts'
const tests = await createModuleGenerations('${root}').load('${file}', { number: 1, isCounting: false })
const said = []
for (const { run } of tests) await run().catch((error) => said.push(error.message))
console.log(JSON.stringify([...said, globalThis.putBack]))
`
    const printed = execFileSync(process.execPath, ['--input-type=module', '--eval', play], { encoding: 'utf8' })
    assert.deepEqual(JSON.parse(printed), ['no', 'Expected a test to use only after of its context, got mock', 'ab'])
  } finally {
    await rm(root, { recursive: true, force: true })
  }
})

test('reports mutants that survive or are not reached in a small project, except explained ones', async () => {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-mutate-'))
  try {
    for (const [name, text] of Object.entries(FILES)) {
      await mkdir(dirname(join(root, name)), { recursive: true })
      await writeFile(join(root, name), text)
    }
    await symlink(join(REPOSITORY, 'node_modules'), join(root, 'node_modules'))
    execFileSync('git', ['init', '--quiet'], { cwd: root })
    const json = join(root, 'result.json')
    await writeFile(
      json,
      JSON.stringify({ folders: [{ folder: 'src/domain', counts: {} }, { folder: 'src/grading' }] }),
    )
    const code = await mutateTypeScript({ root, paths: [], concurrency: 1, json })
    const { folders } = JSON.parse(await readFile(json, 'utf8')) as {
      folders: {
        folder: string
        counts: object
        survivors: { line: number; original: string; replacement: string; isReached: boolean }[]
      }[]
    }
    // What an earlier run found in another folder stays.
    assert.deepEqual(
      folders.map(({ folder }) => folder),
      ['src/domain', 'src/grading'],
    )
    const { counts, survivors } = folders[0] ?? assert.fail()
    assert.deepEqual(
      survivors.map(({ line, original, replacement, isReached }) => [line, `${original} → ${replacement}`, isReached]),
      [
        [4, 'value > LIMIT → value >= LIMIT', true],
        [6, '{ return true } → {}', false],
        [7, 'true → false', false],
      ],
    )
    // The body, the comparison made true, false and turned round, and the sign of the limit.
    assert.deepEqual(counts, {
      mutants: 8,
      killed: 5,
      timedOut: 0,
      survived: 1,
      notReached: 2,
      invalid: 0,
      score: 62.5,
    })
    // The score is too low, and two survivors are not explained.
    assert.equal(code, 1)

    const again = async (): Promise<number> =>
      mutateTypeScript({ root, paths: ['src/domain'], concurrency: 1, json, survivorsOnly: true })
    // Only the limit itself is tested now: what was killed before is not asked again.
    const atLimit = 'assert.equal(isOver(-3), false))'
    await writeFile(
      join(root, 'src/domain/limit.test.ts'),
      `${FILES['src/domain/limit.test.ts'].split('test(')[0]}test('at', () => ${atLimit}`,
    )
    assert.equal(await again(), 1)
    const kept = JSON.parse(await readFile(json, 'utf8')) as { folders: ((typeof folders)[0] & { files: object })[] }
    const { counts: after, files, survivors: left } = kept.folders[0] ?? assert.fail()
    assert.deepEqual(
      left.map(({ line }) => line),
      [6, 7],
    )
    assert.deepEqual(after, { ...counts, killed: 6, survived: 0, score: 75 })
    assert.deepEqual(files, { 'src/domain/limit.ts': after })
    await writeFile(join(root, 'src/domain/limit.ts'), FILES['src/domain/limit.ts'].replace('-3', '-4'))
    assert.equal(await again(), 2)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
})

test('fails when there is nothing to mutate', async () => {
  const input = { root: REPOSITORY, paths: ['src/cli'], concurrency: 1, json: null }
  assert.equal(await mutateTypeScript(input), 2)
})

test('an explanation applies to its own change below the heading of its own file', () => {
  const page = '# Title\n\n### `src/a.ts`\n\n- `x → y`: why\n- `’’ → ’s’`: why\n\n### `src/b.ts`\n\n- `p → q`: why\n'
  assert.equal(explains(page, { file: 'src/a.ts', original: 'x', replacement: 'y' }), true)
  assert.equal(explains(page, { file: 'src/b.ts', original: 'x', replacement: 'y' }), false)
  assert.equal(explains(page, { file: 'src/a.ts', original: 'x', replacement: 'z' }), false)
  assert.equal(explains(page, { file: 'src/c.ts', original: 'x', replacement: 'y' }), false)
  assert.equal(survivorText({ original: '``', replacement: '`s`' }), '`’’ → ’s’`')
})

test('kernels are mutated separately, generated data is skipped, and every other file is mutated once', () => {
  const files = [
    'src/domain/statistics/bootstrap.ts',
    'src/domain/ledger/ledger.ts',
    'src/grading/profiles/swebench-4.1-commands.ts',
  ]
  const groups = groupFiles([...files, 'src/grading/verdict.ts', 'src/cli/main.ts'])
  const parts = groups.map(({ folder, files }) => ({ folder, files }))
  assert.deepEqual(parts, [
    { folder: 'src/domain', files: ['src/domain/ledger/ledger.ts'] },
    { folder: 'src/domain', files: ['src/domain/statistics/bootstrap.ts'] },
    { folder: 'src/grading', files: ['src/grading/verdict.ts'] },
  ])
})
