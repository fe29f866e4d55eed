import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { classic, rebench, rebenchV2, v5 } from '../../../test/support/datasets/published-rows.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { normalizeRow } from './normalize-row.ts'
import { readRows } from './read-source.ts'
import { synthesizeTask } from './synthetic/synthesize.ts'

const row = () => synthesizeTask({ family: 'one-wrong-line', seed: 1, split: 'train', index: 3 }).row

test('a synthesised row becomes a task that knows its source', () => {
  const task = normalizeRow(row())
  assert.equal(task.taskId, 'synthetic__train-000003')
  assert.deepEqual(task.synthetic, { family: 'one-wrong-line', seed: 1, split: 'train', index: 3 })
  assert.equal(task.failToPass.length, 1)
  assert.equal(task.passToPass.length, 8)
  assert.equal(task.image, row().image_name)
})

test('lists and objects given as JSON text, nulls and unknown columns read the same', () => {
  const plain = row()
  const published = {
    ...plain,
    FAIL_TO_PASS: JSON.stringify(plain.FAIL_TO_PASS),
    install_config: JSON.stringify(plain.install_config),
    hints_text: null,
    extra: 7,
  }
  const { rowHash: _left, ...left } = normalizeRow(published)
  const { rowHash: _right, ...right } = normalizeRow(plain)
  assert.deepEqual(left, right)
})

test('the hash does not depend on the order of columns, but on every value', () => {
  const plain = row()
  const turned = Object.fromEntries(Object.entries(plain).toReversed())
  assert.equal(normalizeRow(turned).rowHash, normalizeRow(plain).rowHash)
  assert.notEqual(normalizeRow({ ...plain, hints_text: 'x' }).rowHash, normalizeRow(plain).rowHash)
})

test('test ids keep order, duplicates and trailing blanks', () => {
  const ids = ['b ', 'a', 'b ']
  assert.deepEqual(normalizeRow({ ...row(), PASS_TO_PASS: ids }).passToPass, ids)
})

test('a chain of commands given as a list is joined', () => {
  const config = { ...row().install_config, install: ['a', 'b'] }
  assert.equal(normalizeRow({ ...row(), install_config: config }).installConfig.install, 'a && b')
})

const REFUSALS: [string, string, unknown][] = [
  ['FAIL_TO_PASS', 'no test that should begin to pass', []],
  ['FAIL_TO_PASS', 'JSON that does not parse', '["a"'],
  ['PASS_TO_PASS', 'a number', 3],
  ['instance_id', 'a path', '../x'],
  ['base_commit', 'a branch name', 'main'],
  ['install_config', 'nothing', null],
  ['install_config.log_parser', 'an unknown parser', { test_cmd: 'x', log_parser: 'parse_log_nothing' }],
  ['install_config.test_cmd', 'no command', { log_parser: 'parse_log_pytest' }],
  ['image_name', 'no image', null],
  ['meta.synthetic', 'another family', { synthetic: { family: 'x', seed: 1, split: 'train', index: 1 } }],
  ['test_patch', 'no diff', 'hello'],
  ['patch', 'nothing', ''],
  ['patch', 'no diff', 'see the pull request'],
]

for (const [column, what, value] of REFUSALS) {
  test(`a row with ${what} in ${column} is refused by name`, () => {
    const [top = ''] = column.split('.')
    assert.throws(
      () => normalizeRow({ ...row(), [top]: value }, { label: 'line 9' }),
      (error) => isLonghaulError(error) && error.code === 'Task.Invalid' && error.message.includes(column),
    )
  })
}

test('rows are read from JSON Lines and from an array, and say where they stand', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-rows-'))
  try {
    const lines = join(folder, 'rows.jsonl')
    const list = join(folder, 'rows.json')
    const broken = join(folder, 'broken.jsonl')
    await writeFile(lines, '{"a":1}\n\n{"a":2}\n')
    await writeFile(list, '[{"a":1},\n{"a":2}]')
    await writeFile(broken, '{"a":1}\n{"a":')
    assert.deepEqual(await readRows(lines), [
      { row: { a: 1 }, label: 'line 1' },
      { row: { a: 2 }, label: 'line 3' },
    ])
    assert.deepEqual((await readRows(list)).at(1), { row: { a: 2 }, label: 'item 2' })
    await assert.rejects(readRows(broken), (error) => isLonghaulError(error) && error.details['row'] === 'line 2')
    await assert.rejects(readRows(join(folder, 'none')), { code: 'Config.NotFound' })
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a row that its harness could not run is refused by column: no commands for its version, no script, a path outside', () => {
  const cases: [row: Record<string, unknown>, column: string][] = [
    [{ ...classic.row(), version: '99.9' }, 'version'],
    [{ ...classic.row(), version: null }, 'version'],
    [{ ...classic.row(), environment_setup_commit: 7 }, 'environment_setup_commit'],
    [{ ...classic.row(), environment_setup_commit: 'main; rm -rf /' }, 'environment_setup_commit'],
    [{ ...v5.row(), eval_script: null }, 'eval_script'],
    [{ ...v5.row(), image_assets: { patch: [{ path: '../../etc/passwd', url: 'x' }] } }, 'image_assets.patch'],
    [{ ...v5.row(), image_assets: { test_patch: [{ path: '$(id)', url: 'x' }] } }, 'image_assets.test_patch'],
    [{ ...v5.row(), image_assets: { patch: [{ path: 'a.png', url: 'x', sha256: 'AB' }] } }, 'image_assets.patch'],
    [
      { ...rebenchV2.row(), install_config: { ...(rebenchV2.row()['install_config'] as object), test_cmd: [' ', ''] } },
      'install_config.test_cmd',
    ],
  ]
  for (const [wrong, column] of cases) {
    assert.throws(
      () => normalizeRow(wrong),
      (error) => isLonghaulError(error) && error.code === 'Task.Invalid' && error.details['column'] === column,
      column,
    )
  }
})

test('texts that no shell, engine or path takes are refused by column, and a missing one is called nothing', () => {
  const installed = (more: object) => ({
    ...rebench.row(),
    install_config: { ...(rebench.row()['install_config'] as object), ...more },
  })
  const cases: [row: Record<string, unknown>, message: RegExp][] = [
    [installed({ test_cmd: 'pytest\0' }), /install_config\.test_cmd to be a command/],
    [installed({ install: ['pip install -e .', 'a\0'] }), /install_config\.install to be a command/],
    [installed({ python: '3.9\n3.10' }), /install_config\.python to be a version/],
    [installed({ python: '3'.repeat(41) }), /install_config\.python to be a version/],
    [{ ...rebench.row(), docker_image: `a/${'b'.repeat(254)}` }, /docker_image to be an image reference/],
    [{ ...rebench.row(), install_config: {} }, /test_cmd to be a command, got nothing/],
  ]
  for (const [wrong, message] of cases) assert.throws(() => normalizeRow(wrong), { code: 'Task.Invalid', message })
})

test('files that a patch cannot carry are kept in the order in which they are laid', () => {
  const assets = { patch: [{ path: 'b.png', url: 'http://x/b' }], test_patch: [{ path: 'a.png' }, { url: 'no path' }] }
  assert.deepEqual(normalizeRow({ ...v5.row(), image_assets: JSON.stringify(assets) }).harness?.assets, [
    { path: 'a.png', url: null },
    { path: 'b.png', url: 'http://x/b' },
  ])
})

test('a list of commands where upstream has none is marked as a deviation', () => {
  const plain = rebench.row()
  const config = plain['install_config'] as object
  assert.deepEqual(normalizeRow({ ...plain, install_config: { ...config, test_cmd: ['a', 'b'] } }).deviations, [
    'list-command',
  ])
  assert.equal(normalizeRow(plain).deviations, undefined)
})

test('lists within lists without end, in a value and in JSON text, are refused by column', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  const cases: [row: Record<string, unknown>, message: RegExp][] = [
    [{ ...rebench.row(), extra: JSON.parse(deep) as unknown }, /^Expected extra to be nested at most 100 deep/],
    [{ ...rebench.row(), FAIL_TO_PASS: deep }, /^Expected FAIL_TO_PASS to be nested at most 100 deep/],
    [{ ...rebench.row(), meta: `{"a":${deep}}` }, /^Expected meta to be nested at most 100 deep/],
  ]
  for (const [wrong, message] of cases) assert.throws(() => normalizeRow(wrong), { code: 'Task.Invalid', message })
  assert.throws(() => normalizeRow(JSON.parse(deep), { label: 'line 3' }), {
    code: 'Task.Invalid',
    message: /^Expected \(row\) to be an object, got a deeply nested value .*line 3/,
  })
})

test('a test patch that leaves the repository is refused by its file', () => {
  const change = '@@ -1 +1 @@\n-a\n+b\n'
  for (const name of ['/etc/passwd', 'a/../../x', '"a/../x"', 'a//etc/passwd', '../x']) {
    const patch = `--- ${name}\n+++ b/x\n${change}`
    assert.throws(() => normalizeRow({ ...rebench.row(), test_patch: patch }), {
      code: 'Task.Invalid',
      message: /^Expected test_patch to be a diff of files inside the repository, got "/,
    })
  }
  for (const name of ['/dev/null', 'a/x..y/z', 'tests/x.py\t2026-11-27', '"a/caf\\303\\251"']) {
    normalizeRow({ ...rebench.row(), test_patch: `--- ${name}\n+++ b/x\n${change}` })
  }
})

test('a repository that is a path, an option or a line of a shell is refused', () => {
  for (const repo of [
    '../x',
    './x',
    'a/..',
    'a/b/c',
    '-c/x',
    '--upload-pack=id/x',
    'a/b\n',
    'a/$(id)',
    'a b/c',
    `a/${'b'.repeat(101)}`,
    'ext::sh/x',
  ]) {
    assert.throws(() => normalizeRow({ ...rebench.row(), repo }), {
      code: 'Task.Invalid',
      message: /^Expected repo to be an owner and a name, got "/,
    })
  }
})
