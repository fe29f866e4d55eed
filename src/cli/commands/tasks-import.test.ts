import assert from 'node:assert/strict'
import { access, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execFileSync, spawnSync } from 'node:child_process'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { longhaul } from '../../../test/support/command-line.ts'
import { startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { rebench, v5 } from '../../../test/support/datasets/published-rows.ts'
import { useEnvironment } from '../../../test/support/environment.ts'
import { closeServer, listenOnLoopback } from '../../../test/support/loopback.ts'
import { writeParquet } from '../../../test/support/datasets/write-parquet.ts'
import { loadTasks } from '../../adapters/datasets/load-tasks.ts'
import { plainValue } from '../../adapters/datasets/plain-value.ts'
import { readRows } from '../../adapters/datasets/read-source.ts'
import type { DataRecipe } from '../../contracts/recipe.types.ts'
import type { SuiteFilter } from '../../contracts/suites.types.ts'
import { showFilter } from '../../domain/gates/filter-words.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { EXIT } from '../output/exit-codes.ts'

const folder = await mkdtemp(join(tmpdir(), 'longhaul-tasks-import-'))
after(() => rm(folder, { recursive: true }))

const place = (name: string) => join(folder, name)
const PAPER = { hiddenNames: 'drop', maxFiles: 7, maxLines: 499, dropLlmScore: 3, flakyTrials: 50 } as const
const OFF = { hiddenNames: 'keep', maxFiles: null, maxLines: null, dropLlmScore: null, flakyTrials: null } as const
const curated = async (name: string, filters: DataRecipe['filters'] = PAPER, limit: number | null = null) => {
  const tasks = await loadTasks({ kind: 'rows', path: place(name), limit }, filters)
  return tasks.map(({ taskId }) => taskId)
}
const jsonl = (rows: unknown[]) => rows.map((row) => `${JSON.stringify(plainValue(row))}\n`).join('')

test('a file is imported, filtered and can be named by a recipe; its record says how it came about', async () => {
  const rows = [rebench.row('owner__thing-1'), { ...rebench.row('owner__thing-2'), created_at: new Date('2025-07-01') }]
  await writeFile(place('rows.parquet'), writeParquet({ schema: rebench.schema, rows }))
  const output = place('suite.jsonl')
  const args = ['tasks', 'import', place('rows.parquet'), '--filter', 'created>=2025-06-01', '--output', output]
  const { exitCode, stdout } = await longhaul(...args)
  assert.equal(exitCode, EXIT.ok)
  assert.match(stdout, /created>=2025-06-01 +1 +1 +0/)
  assert.match(stdout, /1 of 2 rows kept, 0 refused \(1 of fork-4\.0\.3\)/)
  const [task] = await loadTasks({ kind: 'rows', path: output, limit: null })
  assert.equal(task?.taskId, 'owner__thing-2')
  const record = JSON.parse(await readFile(`${output}.suite.json`, 'utf8'))
  assert.deepEqual(record.tasks, [{ taskId: 'owner__thing-2', rowHash: task?.rowHash }])
  assert.equal(record.filters[0].kept, 1)
})

test('refused rows are all shown and nothing is written, unless they may be skipped', async () => {
  const bad = { ...rebench.row('owner__thing-2'), FAIL_TO_PASS: [] }
  await writeFile(place('bad.jsonl'), jsonl([bad, rebench.row('owner__thing-1'), { ...bad, instance_id: '../x' }]))
  const output = place('from-bad.jsonl')
  const refused = await longhaul('tasks', 'import', place('bad.jsonl'), '--output', output)
  assert.equal(refused.exitCode, EXIT.usage)
  assert.match(
    refused.stdout,
    /1 +line 1 +owner__thing-2 +FAIL_TO_PASS +Expected FAIL_TO_PASS to be a list of at least one/,
  )
  assert.match(refused.stdout, /3 +line 3 +\.\.\/x +instance_id/)
  await assert.rejects(access(output))
  const skipped = await longhaul('tasks', 'import', place('bad.jsonl'), '--output', output, '--skip-refused', '--json')
  assert.equal(skipped.exitCode, EXIT.ok)
  const { counts, written } = JSON.parse(skipped.stdout)
  assert.deepEqual([counts, written], [{ rows: 3, refused: 2, accepted: 1, kept: 1 }, output])
  assert.equal((await readRows(output)).length, 1)
})

test('a file of another kind is one sentence with what to do, not a table of its lines, for every command that reads rows', async () => {
  const row = rebench.row('owner__thing-1')
  const lines = jsonl([row, rebench.row('owner__thing-2')])
  const parquet = writeParquet({ schema: rebench.schema, rows: [row] })
  const files: [name: string, content: string | Uint8Array, says: RegExp][] = [
    ['packed.jsonl', gzipSync(lines), /it is packed with gzip: unpack it first \(gunzip/],
    ['packed.parquet', gzipSync(parquet), /it is packed with gzip/],
    ['wide.jsonl', Buffer.from(`\uFEFF${lines}`, 'utf16le'), /it is UTF-16; save it as UTF-8/],
    ['wide-without-mark.jsonl', Buffer.from(lines, 'utf16le'), /it is UTF-16; save it as UTF-8/],
    ['columns.jsonl', parquet, /it is Parquet: longhaul tasks import FILE\.parquet/],
    ['lines.parquet', lines, /it looks like JSON: name it FILE\.json or FILE\.jsonl/],
    [
      'pointer.parquet',
      'version https://git-lfs.github.com/spec/v1\noid sha256:0\n',
      /pointer of Git LFS.* git lfs pull/,
    ],
    [
      'pointer.jsonl',
      'version https://git-lfs.github.com/spec/v1\noid sha256:0\n',
      /pointer of Git LFS.* git lfs pull/,
    ],
    ['page.json', '<!doctype html>\n<title>Sign in</title>\n', /it is a page of a website: download the file/],
    ['page.parquet', '\n<!DOCTYPE html>\n', /it is a page of a website: download the file/],
    [
      'object.json',
      JSON.stringify({ rows: [plainValue(row)] }, null, 2),
      /it is one JSON value over several lines: expected an array/,
    ],
    [
      'table.jsonl',
      'instance_id,repo\nowner__thing-1,owner/thing\n',
      /no line of it is a JSON object: .* \(line 1: Expected JSON, got/,
    ],
    ['steering.jsonl', '\u001b[2J\u202e\n\u001b]0;x\u0007\n', /no line of it is a JSON object/],
  ]
  for (const [name, content, says] of files) {
    await writeFile(place(name), content)
    const output = place('of-another-kind.jsonl')
    const readers = [['tasks', 'import', place(name), '--output', output]]
    if (!name.endsWith('.parquet')) readers.push(['images', 'build', place(name)], ['tasks', 'gate', place(name)])
    for (const args of readers) {
      const { exitCode, stdout, stderr } = await longhaul(...args)
      assert.match(stderr, says, args.join(' '))
      assert.match(
        stderr,
        /^error Config\.Invalid: Expected a file of task rows at [^\n\p{Cc}\p{Cf}]*\n$/u,
        args.join(' '),
      )
      assert.deepEqual([exitCode, stdout], [EXIT.usage, ''], args.join(' '))
    }
    await assert.rejects(access(output))
  }
  // In another form, the same rows are read.
  await writeFile(place('from-windows.jsonl'), `\uFEFF${lines.replaceAll('\n', '\r\n')}`)
  const { exitCode } = await longhaul('tasks', 'import', place('from-windows.jsonl'), '--output', place('read.jsonl'))
  assert.equal(exitCode, EXIT.ok)
})

test('a disk that has room for the rows or for their record alone, and a directory in the place of the record: neither is written', async (t) => {
  await writeFile(
    place('sized.jsonl'),
    jsonl([{ ...rebench.row('owner__thing-1'), problem_statement: 'x'.repeat(9_000) }]),
  )
  const small = place('small')
  await mkdir(small)
  for (const size of ['4k', '12k']) {
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'none', small])
    if (mounted.status !== 0) return t.skip('needs root: mounts a file system')
    try {
      const args = ['tasks', 'import', place('sized.jsonl'), '--output', join(small, 'out.jsonl')]
      const { exitCode, stderr } = await longhaul(...args)
      assert.equal(exitCode, EXIT.usage, size)
      assert.match(
        stderr,
        /^error Config\.Invalid: Expected to write .*out\.jsonl.*, no room is left on its disk \(ENOSPC\)\n$/,
      )
      assert.deepEqual(await readdir(small), [], size)
    } finally {
      spawnSync('umount', [small])
    }
  }
  await mkdir(place('taken.jsonl.suite.json'))
  const { exitCode, stderr } = await longhaul('tasks', 'import', place('sized.jsonl'), '--output', place('taken.jsonl'))
  assert.equal(exitCode, EXIT.usage)
  assert.match(stderr, /Expected --output, with its record beside it, to name a path that can be written, .*EISDIR/)
  await assert.rejects(access(place('taken.jsonl')))
})

test('an import that keeps no row writes nothing and ends with 1; ids without a row are named', async () => {
  await writeFile(place('one.jsonl'), jsonl([rebench.row('owner__thing-1')]))
  await writeFile(place('empty.jsonl'), '')
  await writeFile(place('ids.txt'), 'owner__thing-9\n')
  const output = place('none.jsonl')
  const ids = ['--ids', place('ids.txt')]
  for (const args of [
    [place('empty.jsonl')],
    [place('one.jsonl'), ...ids],
    [place('one.jsonl'), '--filter', 'created>=2099-01-01'],
  ]) {
    const { exitCode, stdout } = await longhaul('tasks', 'import', ...args, '--output', output)
    assert.equal(exitCode, EXIT.usage, args.join(' '))
    assert.match(stdout, /Nothing was written: no row is left for a suite/)
    await assert.rejects(access(output))
  }
  await writeFile(place('ids.txt'), 'owner__thing-1\nowner__thing-9\n')
  const { exitCode, stderr } = await longhaul('tasks', 'import', place('one.jsonl'), ...ids, '--output', output)
  assert.deepEqual([exitCode, (await readRows(output)).length], [EXIT.ok, 1])
  assert.match(stderr, /--ids names 1 without a row that can be graded, such as owner__thing-9/)
})

test('a file of rows that a recipe names: no row, and an id twice, are refused with the place', async () => {
  const row = rebench.row('owner__thing-1')
  await writeFile(place('twice.jsonl'), jsonl([row, rebench.row('owner__thing-2'), row]))
  await writeFile(place('no-row.jsonl'), '\n')
  await assert.rejects(loadTasks({ kind: 'rows', path: place('twice.jsonl'), limit: null }), {
    code: 'Task.Invalid',
    message: /Expected a unique id, got that of line 1: leave one of the two rows out .*row=line 3/,
  })
  await writeFile(place('cased.jsonl'), jsonl([row, rebench.row('Owner__thing-1')]))
  await assert.rejects(loadTasks({ kind: 'rows', path: place('cased.jsonl'), limit: null }), {
    code: 'Task.Invalid',
    message: /Expected a unique id, got that of line 1/,
  })
  await assert.rejects(loadTasks({ kind: 'rows', path: place('no-row.jsonl'), limit: null }), {
    code: 'Config.Invalid',
    message: /Expected at least one row of a task in .*no-row\.jsonl/,
  })
})

test('the paper’s filters are counted one by one, with evidence from running the tasks', async () => {
  await writeFile(place('paper.jsonl'), jsonl(['1', '2', '3'].map((number) => rebench.row(`owner__thing-${number}`))))
  const log = "AttributeError: module 'm' has no attribute 'fresh_name'"
  const evidence = [
    {
      instance_id: 'owner__thing-1',
      emptyLog: 'FAILED',
      goldRuns: Array.from({ length: 50 }, () => ({ x: 'PASSED' })),
    },
    { instance_id: 'owner__thing-2', emptyLog: log },
  ]
  await writeFile(place('evidence.jsonl'), jsonl(evidence))
  const args = [
    '--paper-filters',
    '--evidence',
    place('evidence.jsonl'),
    '--output',
    place('paper-suite.jsonl'),
    '--json',
  ]
  const { stdout } = await longhaul('tasks', 'import', place('paper.jsonl'), ...args)
  const { filters, tasks } = JSON.parse(stdout) as { filters: Record<string, number>[]; tasks: { taskId: string }[] }
  assert.deepEqual(
    filters.map(({ kept, dropped, lacking }) => [kept, dropped, lacking]),
    [[1, 1, 1], ...[0, 1, 2, 3].map(() => [1, 0, 0])],
  )
  assert.deepEqual(
    tasks.map(({ taskId }) => taskId),
    ['owner__thing-1'],
  )
})

/** A gold patch that adds `fresh_name` and changes so many lines of one file. */
function patchOf(lines: number): string {
  const added = Array.from({ length: lines }, (_, line) => (line === 0 ? '+fresh_name = 1' : `+line_${line} = ${line}`))
  return ['diff --git a/m.py b/m.py', '--- a/m.py', '+++ b/m.py', `@@ -0,0 +1,${lines} @@`, ...added, ''].join('\n')
}

const SCORES = ['difficulty_score', 'issue_text_score', 'test_score']
const GUESS = "AttributeError: module 'm' has no attribute 'fresh_name'"

/** A row of the published columns at the edge of every filter of the paper, on the wrong side of those of `fails`. */
function edgeRow(id: string, fails: readonly string[], place: number) {
  const row = rebench.row(id)
  const llm = Object.fromEntries(
    SCORES.map((name, at) => [name, fails.includes('llm-score!=3') && at === place % 3 ? 3n : 2n]),
  )
  return {
    row: {
      ...row,
      patch: patchOf(fails.includes('lines<=499') ? 500 : 499),
      meta: { ...(row['meta'] as object), num_modified_files: fails.includes('files<=7') ? 8n : 7n, llm_score: llm },
    },
    evidence: {
      instance_id: id,
      emptyLog: fails.includes('hidden-names') ? GUESS : 'FAILED t.py::test_a - assert 1 == 2',
      gold: { runs: 50, flipping: fails.includes('deterministic>=50') ? ['t.py::test_b'] : [] },
    },
  }
}

test('rows with the published columns at the edge of each filter of the paper: one command tells every class of rows', async () => {
  const filters = ['hidden-names', 'files<=7', 'lines<=499', 'llm-score!=3', 'deterministic>=50']
  const rows: Record<string, unknown>[] = []
  const evidence: object[] = []
  const expected: { dropped: string; lacking: string; tasks: number }[] = []
  for (let set = 0; set < 2 ** filters.length; set++) {
    const dropped = filters.filter((_, bit) => (set >> bit) % 2 === 1)
    const tasks = 1 + (set % 3)
    expected.push({ dropped: dropped.join(' '), lacking: '', tasks })
    for (let copy = 0; copy < tasks; copy++) {
      const made = edgeRow(`owner__set-${set}${copy}`, dropped, copy)
      rows.push(made.row)
      evidence.push(made.evidence)
    }
  }
  // Nothing is kept on trust: never run, run too seldom, never judged by the quality model, no metadata at all.
  const unrun = edgeRow('owner__unrun-1', [], 0)
  const seldom = edgeRow('owner__seldom-1', [], 0)
  const unjudged = edgeRow('owner__unjudged-1', [], 0)
  const bare = edgeRow('owner__bare-1', [], 0)
  rows.push(unrun.row, seldom.row, { ...unjudged.row, meta: { ...unjudged.row.meta, llm_score: null } })
  rows.push({ ...bare.row, meta: null })
  evidence.push({ ...seldom.evidence, gold: { runs: 49, flipping: [] } }, unjudged.evidence, bare.evidence)
  expected.push({ dropped: '', lacking: 'hidden-names deterministic>=50', tasks: 1 })
  expected.push(
    { dropped: '', lacking: 'deterministic>=50', tasks: 1 },
    { dropped: '', lacking: 'llm-score!=3', tasks: 2 },
  )

  await writeFile(place('edges.parquet'), writeParquet({ schema: rebench.schema, rows }))
  await writeFile(place('edges-evidence.jsonl'), jsonl(evidence))
  const command = ['tasks', 'import', place('edges.parquet'), '--paper-filters', '--output', place('edges.jsonl')]
  const run = await longhaul(...command, '--evidence', place('edges-evidence.jsonl'), '--json')
  assert.equal(run.exitCode, EXIT.ok, run.stderr)
  const { classes, counts } = JSON.parse(run.stdout) as {
    classes: { dropped: SuiteFilter[]; lacking: SuiteFilter[]; tasks: number }[]
    counts: { accepted: number; kept: number }
  }
  const said = classes.map(({ dropped, lacking, tasks }) => ({
    dropped: dropped.map(showFilter).join(' '),
    lacking: lacking.map(showFilter).join(' '),
    tasks,
  }))
  const byText = (a: object, b: object): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)
  assert.deepEqual(said.toSorted(byText), expected.toSorted(byText))
  assert.equal(
    said.reduce((sum, { tasks }) => sum + tasks, 0),
    counts.accepted,
  )
  assert.deepEqual([counts.accepted, counts.kept], [rows.length, 1])

  const text = await longhaul(...command, '--evidence', place('edges-evidence.jsonl'))
  assert.match(text.stdout, /Tasks by the filters that they fail/)
  assert.match(text.stdout, /\(none: kept\)\s+–\s+1\n/)
  assert.match(text.stdout, /files<=7 lines<=499\s+–\s+1\n/)
})

test('a data set of a hub is imported by name, revision and split', async () => {
  const dataset = 'nebius/SWE-rebench-leaderboard'
  const revision = 'ab4805dae879e4f4ef81bf9e5cf5afa849f7c55b'
  const bytes = writeParquet({ schema: rebench.schema, rows: [rebench.row()] })
  await using hub = await startHubServer({ dataset, revision, files: { 'data/2025_05-00000-of-00001.parquet': bytes } })
  const where = ['--revision', revision, '--split', '2025_05', '--hub-url', hub.url]
  const { exitCode, stdout } = await longhaul(
    'tasks',
    'import',
    dataset,
    ...where,
    '--output',
    place('may.jsonl'),
    '--json',
  )
  assert.equal(exitCode, EXIT.ok)
  assert.deepEqual(JSON.parse(stdout).source, { kind: 'hub', dataset, revision, split: '2025_05' })
  const unpinned = await longhaul('tasks', 'import', dataset, '--output', place('x.jsonl'))
  assert.equal(unpinned.exitCode, EXIT.usage)
  assert.match(unpinned.stderr, /--revision and --split/)
})

test('a data set that the hub shows to a token: without it, with a wrong one and with terms to accept, the error says what to set', async (t) => {
  const revision = 'c'.repeat(40)
  const files = { 'data/test-00000-of-00001.parquet': writeParquet({ schema: rebench.schema, rows: [rebench.row()] }) }
  const output = place('gated.jsonl')
  const importFrom = (url: string, ...more: string[]) => {
    const source = ['a/b', '--revision', revision, '--split', 'test', '--hub-url', url]
    return longhaul('tasks', 'import', ...source, '--output', output, ...more)
  }
  await using hub = await startHubServer({ dataset: 'a/b', revision, files, token: 'good' })
  await using strict = await startHubServer({ dataset: 'a/b', revision, files, token: 'good', refusal: 403 })
  useEnvironment(t, { HF_TOKEN: '', MINE: 'bad-token' })
  for (const [url, more, says] of [
    [hub.url, [], /shows no such data set without a token.* Set HF_TOKEN .*--token-variable/],
    [hub.url, ['--token-variable', 'MINE'], /refuses the token in MINE: put one that is valid/],
    [strict.url, ['--token-variable', 'MINE'], /does not let this token read the data set: accept its terms/],
  ] as const) {
    const { exitCode, stderr } = await importFrom(url, ...more)
    assert.match(stderr, says)
    assert.match(stderr, /^error Config\.NotFound: [^\n]*\n$/)
    assert.doesNotMatch(stderr, /bad-token/)
    assert.equal(exitCode, EXIT.usage)
    await assert.rejects(access(output))
  }
  process.env['MINE'] = 'good'
  assert.equal((await importFrom(hub.url, '--token-variable', 'MINE')).exitCode, EXIT.ok)
  assert.equal((await readRows(output)).length, 1)
})

test('tasks of any harness can be named by a recipe; those without a known log parser are refused, by name', async () => {
  const path = place('classic.jsonl')
  const { classic } = await import('../../../test/support/datasets/published-rows.ts')
  await writeFile(path, jsonl([classic.row()]))
  const [task] = await loadTasks({ kind: 'rows', path, limit: null })
  assert.equal(task?.gradingProfile, 'swebench-4.1')
  const unreadable = { ...classic.row('axios__axios-5892'), repo: 'axios/axios', version: '5892' }
  await writeFile(path, jsonl([classic.row(), unreadable]))
  await assert.rejects(loadTasks({ kind: 'rows', path, limit: null }), {
    code: 'Config.Invalid',
    message: /task=axios__axios-5892, .*parser=axios\/axios/,
  })
})

test('filters of a recipe that rows alone can answer are applied when a run starts, before its limit', async () => {
  const large = { ...(rebench.row()['meta'] as object), num_modified_files: 8 }
  const rows = [
    { ...rebench.row('owner__thing-1'), meta: large },
    rebench.row('owner__thing-2'),
    rebench.row('owner__thing-3'),
  ]
  await writeFile(place('recipe.jsonl'), jsonl(rows))
  assert.deepEqual(await curated('recipe.jsonl', { ...OFF, maxFiles: 7 }, 1), ['owner__thing-2'])
  assert.deepEqual(await curated('recipe.jsonl', OFF, 1), ['owner__thing-1'])
  assert.deepEqual(await curated('recipe.jsonl', { ...OFF, maxLines: 2 }), [])
})

test('--pin-files fetches what rows name by address and writes the hashes into them; imported again, they have the new ones', async (t) => {
  let content = 'first'
  const server = createServer((_request, response) => response.end(content))
  const url = `http://127.0.0.1:${await listenOnLoopback(server)}/a.png`
  t.after(() => closeServer(server))
  useEnvironment(t, { LONGHAUL_ASSET_HOSTS: new URL(url).host })
  const entries = { test_patch: [{ path: 'a.png', url }, { path: 'b.png' }], patch: [] }
  const plain = v5.row('owner__thing-2')
  await writeFile(place('v5.jsonl'), jsonl([{ ...plain, image_assets: JSON.stringify(entries) }, v5.row()]))
  const [first, second] = [place('pinned-1.jsonl'), place('pinned-2.jsonl')]
  const hashes: unknown[] = []
  for (const [from, to, bytes] of [
    [place('v5.jsonl'), first, 'first'],
    [first, second, 'second'],
  ] as const) {
    content = bytes
    const { exitCode, stderr } = await longhaul('tasks', 'import', from, '--pin-files', '--output', to)
    assert.equal(exitCode, EXIT.ok, stderr)
    const [task, other] = await loadTasks({ kind: 'rows', path: to, limit: null })
    assert.deepEqual(task?.harness?.assets, [
      { path: 'a.png', url, sha256: sha256Hex(bytes) },
      { path: 'b.png', url: null },
    ])
    const record = JSON.parse(await readFile(`${to}.suite.json`, 'utf8'))
    assert.deepEqual(
      record.tasks.map(({ rowHash }: { rowHash: string }) => rowHash),
      [task?.rowHash, other?.rowHash],
    )
    hashes.push(task?.rowHash)
  }
  assert.notEqual(hashes[0], hashes[1])
  // Rows without such files stay as published.
  const [, untouched] = await readRows(second)
  assert.deepEqual(untouched?.row, plainValue(v5.row()))
})

test('--pin-files where a file cannot be fetched: nothing is written, and the error names the file', async () => {
  const entries = { test_patch: [{ path: 'a.png', url: 'http://127.0.0.1:9/a.png' }] }
  await writeFile(place('unreachable.jsonl'), jsonl([{ ...v5.row(), image_assets: entries }]))
  const output = place('unpinned.jsonl')
  const { exitCode, stderr } = await longhaul(
    'tasks',
    'import',
    place('unreachable.jsonl'),
    '--pin-files',
    '--output',
    output,
  )
  assert.notEqual(exitCode, EXIT.ok)
  assert.match(stderr, /a\.png/)
  await assert.rejects(access(output))
})

test('a pipe, and a text longer than any that can be held, are refused before they are read', async () => {
  execFileSync('mkfifo', [place('pipe.jsonl')])
  await writeFile(place('long.jsonl'), '')
  await truncate(place('long.jsonl'), 3_000_000_000)
  const output = place('unread.jsonl')
  for (const [name, why] of [
    ['pipe.jsonl', /it is a pipe or a device: save it to a file/],
    ['long.jsonl', /it is larger than \d+ MiB: split it, or save it as Parquet/],
  ] as const) {
    const { exitCode, stderr } = await longhaul('tasks', 'import', place(name), '--output', output)
    assert.equal(exitCode, 1, name)
    assert.match(stderr, /^error Config\.Invalid: Expected a file of task rows at /m)
    assert.match(stderr, why)
  }
})
