import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { classic, ODD_PATCH, rebench, rebenchV2, v5 } from '../../../test/support/datasets/published-rows.ts'
import { writeParquet } from '../../../test/support/datasets/write-parquet.ts'
import { importSuite } from './import-suite.ts'
import type { ReadProgress } from './read-source.ts'
import { plainValue } from './plain-value.ts'

const REVISION = 'ab4805dae879e4f4ef81bf9e5cf5afa849f7c55b'
let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-import-'))
})
after(() => rm(folder, { recursive: true }))

async function save(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}

const jsonl = (rows: unknown[]) => rows.map((row) => `${JSON.stringify(plainValue(row))}\n`).join('')
const importFile = async (path: string) => importSuite({ source: { kind: 'file', path } })

const PUBLICATIONS = [
  {
    name: 'SWE-bench classic',
    kind: classic,
    profile: 'swebench-4.1',
    image: 'swebench/sweb.eval.x86_64.django_1776_django-11099:latest',
    repoDir: '/testbed',
    createdAt: '2019-03-20T03:46:18Z',
  },
  {
    name: 'SWE-bench v5',
    kind: v5,
    profile: 'swebench-5',
    image: 'swebench/sweb.eval.x86_64.django_1776_django-11099:latest',
    repoDir: '/testbed',
    createdAt: '2019-03-20T03:46:18Z',
  },
  {
    name: 'SWE-rebench',
    kind: rebench,
    profile: 'fork-4.0.3',
    image: 'swerebench/sweb.eval.x86_64.owner_1776_thing-7:latest',
    repoDir: '/testbed',
    createdAt: '2025-05-02T10:00:00.000Z',
  },
  {
    name: 'SWE-rebench-V2',
    kind: rebenchV2,
    profile: 'rebench-v2',
    image: 'docker.io/swerebenchv2/owner-thing:9-0123456',
    repoDir: '/thing',
    createdAt: '2024-05-01T00:00:00.000Z',
  },
]

for (const { name, kind, ...expected } of PUBLICATIONS) {
  test(`${name} read from Parquet becomes tasks of its harness, patches and test ids byte for byte`, async () => {
    const bytes = writeParquet({ schema: kind.schema, rows: [kind.row()] })
    const { suite, kept } = await importFile(await save(`${expected.profile}.parquet`, bytes))
    assert.deepEqual(suite.refused, [])
    const task = kept[0]?.task
    assert.equal(task?.gradingProfile, expected.profile)
    assert.equal(task?.image, expected.image)
    assert.equal(task?.repoDir, expected.repoDir)
    assert.equal(task?.createdAt, expected.createdAt)
    assert.equal(task?.goldPatch, ODD_PATCH)
    assert.deepEqual(task?.failToPass, ['t.py::test_a '])
    assert.deepEqual(task?.passToPass, ['t.py::test_ü', 't.py::test_b', 't.py::test_ü'])
  })

  test(`${name} has the same rows from JSON Lines as from Parquet`, async () => {
    const bytes = writeParquet({ schema: kind.schema, rows: [kind.row()], compression: 'ZSTD' })
    const fromParquet = await importFile(await save('same.parquet', bytes))
    const fromLines = await importFile(await save('same.jsonl', jsonl([kind.row()])))
    assert.equal(fromLines.kept[0]?.task.rowHash, fromParquet.kept[0]?.task.rowHash)
  })
}

test('commands of V2 stay one a line, those of the fork are one chain', async () => {
  const list = {
    ...rebench.row(),
    install_config: { ...(rebench.row()['install_config'] as object), install: ['a', 'b'] },
  }
  const { kept } = await importFile(await save('commands.jsonl', jsonl([rebenchV2.row(), list])))
  assert.equal(kept[0]?.task.installConfig.install, 'go mod download\ngo build ./...')
  assert.equal(kept[1]?.task.installConfig.install, 'a && b')
})

test('every refused row is listed with number, column and reason, and the good ones stay', async () => {
  const rows = [
    rebench.row('owner__thing-1'),
    { ...rebench.row('owner__thing-2'), FAIL_TO_PASS: [] },
    { ...rebench.row('owner__thing-3'), install_config: null },
    rebench.row('owner__thing-1'),
    { ...v5.row('django__django-5'), eval_type: 'other' },
    { ...v5.row('django__django-6'), log_parser: 'parse_log_nobody' },
    { ...v5.row('django__django-7'), image: 'swebench/sweb.eval.x86_64.django_1776_django-8:latest' },
    { ...rebench.row('owner__thing-8'), patch: 'diff \ud800' },
    { ...rebench.row('owner__thing-9'), created_at: 'yesterday' },
    { ...rebench.row('owner__thing-10'), test_patch: 'no diff' },
    { ...rebenchV2.row('owner__thing-11'), repo: 'owner/..' },
    { ...classic.row('owner__thing-12'), repo: 'unknown/nothing' },
    { ...rebenchV2.row('owner__thing-13'), image_name: 'docker.io/swerebenchv2/owner-thing:13-fedcba9' },
    rebench.row('Owner__Thing-1'),
  ]
  const { suite } = await importFile(await save('bad.jsonl', `${jsonl(rows)}{"instance_id":\n`))
  assert.deepEqual(
    suite.refused.map(({ row, column }) => [row, column]),
    [
      [2, 'FAIL_TO_PASS'],
      [3, 'install_config'],
      [4, 'instance_id'],
      [5, 'eval_type'],
      [6, 'log_parser'],
      [7, 'image'],
      [8, 'patch'],
      [9, 'created_at'],
      [10, 'test_patch'],
      [11, 'repo'],
      [12, 'repo'],
      [13, 'image_name'],
      [14, 'instance_id'],
      [15, '(row)'],
    ],
  )
  assert.ok(suite.refused.every(({ reason }) => reason.startsWith('Expected ')))
  assert.deepEqual(suite.counts, { rows: 15, refused: 14, accepted: 1, kept: 1 })
})

test('bytes that are no UTF-8 refuse the row of a Parquet file by column', async () => {
  const row = { ...rebench.row(), problem_statement: 'It is QQQQ' }
  const bytes = Buffer.from(writeParquet({ schema: rebench.schema, rows: [row], compression: 'UNCOMPRESSED' }))
  for (let at = bytes.indexOf('QQQQ'); at >= 0; at = bytes.indexOf('QQQQ', at)) bytes.fill(0xff, at, at + 4)
  const { suite } = await importFile(await save('latin.parquet', bytes))
  assert.equal(suite.refused[0]?.column, 'problem_statement')
})

test('a known parser that is not ported keeps its task and counts it', async () => {
  // The official harness of version 5 reads logs of languages that only the V2 profile has parsers for here.
  const row = { ...v5.row(), log_parser: 'parse_log_karma' }
  const { suite } = await importFile(await save('karma.jsonl', jsonl([row])))
  assert.deepEqual([suite.counts.kept, suite.unsupported], [1, 1])
})

test('images keep digests and ports, get a tag and lower case; the columns may be empty', async () => {
  const images = [
    ['localhost:5000/Mine/Thing', 'localhost:5000/mine/thing:latest'],
    ['mine/thing:V1', 'mine/thing:V1'],
    [`mine/thing@sha256:${'a'.repeat(64)}`, `mine/thing@sha256:${'a'.repeat(64)}`],
    ['', 'swerebench/sweb.eval.x86_64.owner_1776_thing-3:latest'],
  ]
  const rows = images.map(([image], index) => ({ ...rebench.row(`owner__thing-${index}`), image_name: image }))
  const { kept } = await importFile(await save('images.jsonl', jsonl(rows)))
  assert.deepEqual(
    kept.map(({ task }) => task.image),
    images.map(([, expected]) => expected),
  )
})

test('a file that is no Parquet and a file that is not there are named', async () => {
  await assert.rejects(importFile(await save('none.parquet', 'hello, no magic')), {
    code: 'Task.Invalid',
    message: /none\.parquet/,
  })
  await assert.rejects(importFile(join(folder, 'missing.jsonl')), { code: 'Config.NotFound' })
})

test('the hash of a suite changes with a row, a filter and the revision, not with the place of a file', async () => {
  const rows = [rebench.row('owner__thing-1'), rebench.row('owner__thing-2')]
  const one = (await importFile(await save('one.jsonl', jsonl(rows)))).suite.hash
  const path = await save('one.jsonl', jsonl(rows))
  const filtered = await importSuite({ source: { kind: 'file', path }, filters: [{ kind: 'max-files', max: 7 }] })
  const changed = (await importFile(await save('one.jsonl', jsonl([rows[0], { ...rows[1], hints_text: 'x' }])))).suite
    .hash
  assert.equal(new Set([one, filtered.suite.hash, changed]).size, 3)
})

function leaderboard(month: string, ids: string[], groupSize = 1000): Record<string, Uint8Array> {
  // Long enough that a reader which fetches a whole file is seen to.
  const rows = ids.map((id) => ({ ...rebench.row(id), problem_statement: randomBytes(450_000).toString('base64') }))
  return { [`data/${month}-00000-of-00001.parquet`]: writeParquet({ schema: rebench.schema, rows, groupSize }) }
}

test('a split of a hub is read by ranges at its pinned revision, other splits are left alone', async () => {
  const dataset = 'nebius/SWE-rebench-leaderboard'
  const files = {
    ...leaderboard('2025_05', ['owner__thing-1', 'owner__thing-2'], 1),
    ...leaderboard('2025_06', ['owner__thing-3']),
  }
  await using hub = await startHubServer({ dataset, revision: REVISION, files, failures: 2, breaks: 1 })
  const source = { kind: 'hub' as const, dataset, revision: REVISION, split: '2025_05' }
  const progress: ReadProgress[] = []
  const { suite, kept } = await importSuite({ source, hubUrl: hub.url, onProgress: (next) => progress.push(next) })
  assert.deepEqual(progress[0], { files: 0, of: 1, bytes: 0, rows: 0 })
  const { bytes = 0, ...end } = progress.at(-1) ?? {}
  assert.deepEqual([end, bytes > 0], [{ files: 1, of: 1, rows: 2 }, true])
  assert.deepEqual(
    kept.map(({ task }) => task.taskId),
    ['owner__thing-1', 'owner__thing-2'],
  )
  assert.equal(suite.files[0]?.id?.length, 64)
  const reads = hub.requests.filter(({ path }) => path.includes('/resolve/'))
  assert.ok(reads.every(({ path, range }) => path.endsWith('2025_05-00000-of-00001.parquet') && range !== null))
  await assert.rejects(importSuite({ source: { ...source, split: '2025_07' }, hubUrl: hub.url }), {
    code: 'Config.NotFound',
  })
  await assert.rejects(importSuite({ source: { ...source, revision: 'main' }, hubUrl: hub.url }), {
    code: 'Config.Invalid',
  })
  const other = { ...source, revision: '0'.repeat(40) }
  await assert.rejects(importSuite({ source: other, hubUrl: hub.url }), { code: 'Config.NotFound' })
})

test('a split of which a part is missing is refused', async () => {
  const [bytes = new Uint8Array()] = Object.values(leaderboard('test', ['owner__thing-1']))
  const files = { 'data/test-00000-of-00002.parquet': bytes }
  await using hub = await startHubServer({ dataset: 'a/b', revision: REVISION, files })
  const source = { kind: 'hub' as const, dataset: 'a/b', revision: REVISION, split: 'test' }
  await assert.rejects(importSuite({ source, hubUrl: hub.url }), { code: 'Config.NotFound', message: /1 of 2/ })
})

test('any text survives Parquet in patches and test ids, and JSON text of a list is the list', async () => {
  const text = fc.string({ unit: 'binary', minLength: 1 })
  const diffOf = (any: string): string => `\uFEFF${any}\n--- a/x`
  const content = fc.record({ patch: text, ids: fc.array(text, { minLength: 1 }) })
  // Many rows of one file: each file costs a process.
  await fc.assert(
    fc.asyncProperty(fc.array(content, { minLength: 15, maxLength: 15 }), async (contents) => {
      const rows = contents.map(({ patch, ids }, at): Record<string, unknown> => {
        const row = rebench.row(`owner__thing-${at}`)
        return { ...row, patch: diffOf(patch), FAIL_TO_PASS: ids }
      })
      const { kept } = await importFile(await save('any.parquet', writeParquet({ schema: rebench.schema, rows })))
      assert.deepEqual(
        kept.map(({ task }) => [task.goldPatch, task.failToPass]),
        contents.map(({ patch, ids }) => [diffOf(patch), ids]),
      )
      const asText = rows.map((row) => ({
        ...row,
        FAIL_TO_PASS: JSON.stringify(row['FAIL_TO_PASS']),
        install_config: JSON.stringify(row['install_config']),
      }))
      const fromText = await importFile(await save('any.jsonl', jsonl(asText)))
      const tasksOf = (found: typeof kept) => found.map(({ task }) => ({ ...task, rowHash: '' }))
      assert.deepEqual(tasksOf(fromText.kept), tasksOf(kept))
    }),
    { numRuns: 4 },
  )
})

test('a file larger than one range is put together from several', async () => {
  const rows = [{ ...rebench.row(), problem_statement: randomBytes(7_000_000).toString('base64') }]
  const files = {
    'test-00000-of-00001.parquet': writeParquet({ schema: rebench.schema, rows, compression: 'UNCOMPRESSED' }),
  }
  await using hub = await startHubServer({ dataset: 'a/b', revision: REVISION, files })
  const source = { kind: 'hub' as const, dataset: 'a/b', revision: REVISION, split: 'test' }
  const { kept } = await importSuite({ source, hubUrl: hub.url })
  assert.equal(kept[0]?.task.statement, rows[0]?.problem_statement)
  const sizes = hub.requests
    .map(({ range }) => /(\d+)-(\d+)/.exec(range ?? ''))
    .map((part) => Number(part?.[2]) - Number(part?.[1]))
  assert.ok(sizes.every((size) => Number.isNaN(size) || size < 8 * 1024 * 1024))
})

test('a hub that does not answer is unavailable, not an empty split', async () => {
  const source = { kind: 'hub' as const, dataset: 'a/b', revision: REVISION, split: 'test' }
  await assert.rejects(importSuite({ source, hubUrl: 'http://127.0.0.1:1' }), { code: 'Artifact.Unavailable' })
})

test('a line that is no UTF-8 is refused by itself, and lines around it keep their text', async () => {
  const [first, last] = [1, 2].map((number) => ({
    ...rebench.row(`owner__thing-${number}`),
    problem_statement: 'Größe ≠ 0 😀',
  }))
  const latin = Buffer.from(jsonl([{ ...rebench.row('owner__thing-3'), problem_statement: 'Größe' }]), 'latin1')
  const bytes = Buffer.concat([Buffer.from(jsonl([first])), latin, Buffer.from(jsonl([last]))])
  const { suite, kept } = await importFile(await save('mixed.jsonl', bytes))
  assert.deepEqual(
    kept.map(({ task }) => task.statement),
    ['Größe ≠ 0 😀', 'Größe ≠ 0 😀'],
  )
  assert.deepEqual(
    suite.refused.map(({ at, column }) => [at, column]),
    [['line 2', 'problem_statement']],
  )
})

for (const [what, begin, piece, end] of [
  ['one byte that is no UTF-8', '{"instance_id": "\xff', 'x', '"}\n'],
  ['a list of lists', '{"meta": [', '[],', '[]]}\n'],
  ['a list of numbers', '[', '1,', '1]'],
  ['lines of nothing', '', '[]\n', ''],
] as const) {
  test(`64 MiB of rows with ${what} end with a message, in little memory`, async () => {
    const size = 64 * 1024 ** 2
    const path = await save('large.jsonl', Buffer.from(begin + piece.repeat(size / piece.length) + end, 'latin1'))
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [
        // One such byte makes a text of two bytes per character: 128 MiB as read, and as much again as parsed.
        '--max-old-space-size=384',
        join(import.meta.dirname, '../../../bin/longhaul.mjs'),
        'tasks',
        'import',
        path,
        '--output',
        `${path}.out.jsonl`,
      ],
      { encoding: 'utf8', timeout: 300_000, cwd: folder },
    )
    assert.deepEqual([status === null, /Expected/.test(stdout + stderr)], [false, true], stderr.slice(-500))
    assert.doesNotMatch(stderr, /heap|Unexpected/)
  })
}
