import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { issueMessage } from '../../../scaffold/observation.ts'
import { FULL_SYSTEM_PROMPT } from '../../../scaffold/prompts/system.ts'
import { ENDINGS, ROOTS, type Split, composeRenamed } from './half-renamed.ts'
import { synthesizeSuite, synthesizeTask } from './synthesize.ts'

const source = (index: number, split: Split = 'train') => ({ family: 'half-renamed', seed: 5, split, index }) as const
const SPLITS = ['train', 'eval'] as const

/** Every stem of a split: each root, bare and with each ending. */
const allStems = (split: Split): string[] => ROOTS[split].flatMap((root) => ENDINGS.map((ending) => root + ending))

/** Everything that a task says beside its names. */
const FIXED_WORDS = new Set(
  (
    'def return if from import class self assert init formerly test tests py pycache pytest cache is now but still uses the old name ' +
    'since was renamed to broken got a new and some code of one fails because it which called otherwise fail changed more than file ' +
    'affected renaming in left half done several files show'
  ).split(' '),
)

const wordsOf = (text: string): string[] => text.toLowerCase().match(/[a-z]+/g) ?? []

function inRepository(tar: Uint8Array, body: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-task-'))
  try {
    execFileSync('tar', ['-x', '--no-same-owner', '-C', folder], { input: tar })
    body(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const git = (folder: string, args: string[], input = ''): string =>
  execFileSync('git', args, { cwd: folder, encoding: 'utf8', input })

/** Which tests of a file fail, each called on its own as pytest would. */
function failing(folder: string, path: string): string[] {
  const script =
    'import runpy,sys; sys.path.insert(0,"."); m=runpy.run_path(sys.argv[1]); bad=[]\nfor n,f in m.items():\n  if n.startswith("test_"):\n    try: f()\n    except Exception: bad.append(n)\nprint(",".join(bad))'
  const out = execFileSync('python3', ['-B', '-c', script, path], { cwd: folder, encoding: 'utf8' }).trim()
  return out === '' ? [] : out.split(',')
}

test('no stem of one split is a stem of the other or stands inside one, over the whole vocabulary', () => {
  const [train, held] = [allStems('train'), allStems('eval')]
  assert.ok(train.length > 15_000 && held.length > 5_000, `${train.length} and ${held.length}`)
  assert.equal(new Set([...train, ...held]).size, train.length + held.length)
  for (const [own, other] of [
    [train, held],
    [held, train],
  ] as const) {
    const words = new Set(other)
    // A stem that stood inside another would be one of its pieces; all stems have four or five letters.
    const inside = own.flatMap((stem) => [stem, stem.slice(0, 4), stem.slice(1)]).filter((piece) => words.has(piece))
    assert.deepEqual(inside, [])
  }
})

test('every name of a task is made of stems of its split, and nothing else in it is one', () => {
  const all = new Set(SPLITS.flatMap((split) => allStems(split)))
  assert.deepEqual(
    [...FIXED_WORDS].filter((word) => all.has(word)),
    [],
  )
  for (const split of SPLITS) {
    const own = new Set(allStems(split))
    for (const { row, composed } of synthesizeSuite({ family: 'half-renamed', seed: 9, split, count: 80, offset: 0 })) {
      const code = composed.modules.flatMap(({ path, lines, right }) => [path, ...lines, ...right])
      const words = wordsOf([...code, row.problem_statement, row.repo.replace('longhaul/', '')].join('\n'))
      const strange = words.filter((word) => !own.has(word) && !FIXED_WORDS.has(word))
      assert.deepEqual(strange, [], row.instance_id)
    }
  }
})

test('no stem is a word of Python, of its library or of the prompts', () => {
  const python =
    'import sys,keyword,builtins; print(" ".join([*sys.stdlib_module_names, *keyword.kwlist, *dir(builtins)]))'
  const taken = execFileSync('python3', ['-c', python], { encoding: 'utf8' })
  const words = new Set(wordsOf(`${taken} pytest ${FULL_SYSTEM_PROMPT} ${issueMessage('')}`))
  const all = SPLITS.flatMap((split) => allStems(split))
  assert.deepEqual(
    all.filter((stem) => words.has(stem)),
    [],
  )
})

test('each task has two stale files at level 3 and one below, several stale lines in each, and tells what its level tells', () => {
  const seen = new Set<string>()
  for (let index = 0; index < 200; index += 1) {
    const { modules, home, level, kind, statement, oldName, newName } = composeRenamed(source(index))
    const stale = modules.filter(({ staleLines }) => staleLines.length > 0)
    assert.equal(stale.length, level === 3 ? 2 : 1)
    assert.ok(!stale.includes(home))
    for (const { staleLines, lines } of stale) {
      assert.ok(staleLines.length >= 2, `${index}: ${staleLines.length}`)
      for (const line of staleLines) assert.ok(lines[line - 1]?.includes(oldName))
    }
    assert.equal(statement.includes(newName), level === 1)
    assert.equal(statement.includes(oldName), level < 3)
    assert.equal(
      home.lines.filter((line) => line.includes(newName) && line.endsWith(`# formerly ${oldName}`)).length,
      1,
    )
    seen.add(`${level} ${kind}`)
  }
  assert.equal(seen.size, 9)
})

test('the patches are what Git itself would write; gold passes all hidden tests, without it exactly FAIL_TO_PASS fails', async () => {
  for (let index = 0; index < 6; index += 1) {
    const { row, repoTar, composed } = synthesizeTask(source(index, index % 2 === 0 ? 'train' : 'eval'))
    inRepository(await repoTar(), (folder) => {
      const visible = `tests/test_${composed.packageName}.py`
      assert.equal(git(folder, ['rev-parse', 'HEAD']).trim(), row.base_commit)
      assert.equal(git(folder, ['status', '--porcelain']), '')
      git(folder, ['apply', '-'], row.test_patch)
      const [path = ''] = (row.FAIL_TO_PASS[0] ?? '').split('::')
      const names = (ids: string[]): string[] => ids.map((id) => id.split('::')[1] ?? '')
      assert.deepEqual(failing(folder, path), names(row.FAIL_TO_PASS))
      assert.equal(failing(folder, visible).length, row.FAIL_TO_PASS.length)
      git(folder, ['apply', '-'], row.patch)
      assert.equal(git(folder, ['diff']), row.patch)
      assert.deepEqual([...failing(folder, path), ...failing(folder, visible)], [])
      const tests = readFileSync(join(folder, path), 'utf8').match(/^def (test_\w+)/gm) ?? []
      assert.equal(tests.length, row.FAIL_TO_PASS.length + row.PASS_TO_PASS.length)
      assert.ok(row.PASS_TO_PASS.length >= 2)
    })
  }
})

test('half a repair is not enough: each stale line left alone keeps a hidden test failing', async () => {
  for (const index of [0, 1, 2]) {
    const { row, repoTar, composed } = synthesizeTask(source(index))
    const [path = ''] = (row.FAIL_TO_PASS[0] ?? '').split('::')
    const places = composed.modules.flatMap(({ path: file, staleLines }) => staleLines.map((line) => ({ file, line })))
    inRepository(await repoTar(), (folder) => {
      git(folder, ['apply', '-'], row.test_patch)
      for (const { file, line } of places) {
        git(folder, ['checkout', '--', '.'])
        git(folder, ['apply', '-'], row.patch)
        const stale = composed.modules.find((module) => module.path === file)?.lines[line - 1] ?? ''
        execFileSync('sed', ['-i', `${line}s/.*/${stale}/`, file], { cwd: folder })
        assert.ok(failing(folder, path).length > 0, `${row.instance_id} ${file}:${line}`)
      }
    })
  }
})

test('the same source gives the same row and bytes, and ids of the two families never meet', async () => {
  const [first, second] = [synthesizeTask(source(3)), synthesizeTask(source(3))]
  assert.deepEqual(first.row, second.row)
  assert.deepEqual(await first.repoTar(), await second.repoTar())
  const other = synthesizeTask({ family: 'one-wrong-line', seed: 5, split: 'train', index: 3 })
  assert.notEqual(other.row.instance_id, first.row.instance_id)
  assert.ok(ROOTS.train.length > 3 * ROOTS.eval.length * 0.9)
})
