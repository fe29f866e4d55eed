import assert from 'node:assert/strict'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { tableFromIPC } from 'apache-arrow'
import * as parquet from 'parquet-wasm'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import { HOSTILE_REASON, HOSTILE_TASK, storeExportedRun } from '../../../test/support/exported-run.ts'
import { runPython, withoutPython } from '../../../test/support/python.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { storeEpisode, storeViewedRun } from '../../../test/support/viewed-run.ts'
import { checkLedger } from '../../activities/training/check-ledger.ts'
import { createRecipeReader } from '../../activities/runtime/stored-records.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { EPISODE_COLUMNS } from '../../report/exports/episode-columns.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const POLICY: PolicyRef = {
  version: 'v000001-bbbbbbbb',
  uri: '',
  manifestSha256: '',
  globalStep: 1,
  checkpointUri: null,
  checkpointSha256: null,
}

type Row = Record<string, string | number | bigint | boolean | null>

/** By the Rust implementation of Parquet, which shares no code with our writer. */
async function readParquet(path: string): Promise<Row[]> {
  const table = tableFromIPC(parquet.readParquet(await readFile(path)).intoIPCStream())
  return table.toArray().map((row) => (row as { toJSON(): Row }).toJSON())
}

function counts(rows: readonly Row[], column: string): Record<string, number> {
  const found: Record<string, number> = {}
  for (const row of rows) found[String(row[column])] = (found[String(row[column])] ?? 0) + 1
  return found
}

describe('longhaul export', () => {
  let own: Awaited<ReturnType<typeof useOwnStore>>
  const out = (name: string): string => join(own.root, name)
  const write = async (subject: string, format: string, name: string, ...more: string[]) => {
    const answer = await longhaul('export', subject, '--format', format, '--out', out(name), '--json', ...more)
    assert.equal(answer.exitCode, 0, answer.stderr)
    return JSON.parse(answer.stdout) as Record<string, unknown>
  }
  before(async () => {
    own = await useOwnStore()
    await storeExportedRun(own.store, 'run')
  })
  after(() => own.close())

  test('Parquet of a run with losses, voids and an open episode: a row for each, counts are the ledger’s', async () => {
    const summary = await write('run', 'parquet', 'run.parquet')
    assert.deepEqual(summary['episodes'], { finished: 11, unfinished: 1, unreadable: 0 })
    const rows = await readParquet(out('run.parquet'))
    assert.equal(rows.length, 12)
    assert.deepEqual(
      Object.keys(rows[0] ?? {}),
      EPISODE_COLUMNS.map(({ name }) => name),
    )

    const recipe = await createRecipeReader(own.store)('run')
    const { totals, mismatches } = await checkLedger({ store: own.store, recipe }, 'run')
    assert.deepEqual(mismatches, [])
    const sum = (numbers: object): number => Object.values(numbers).reduce((a: number, b: number) => a + b, 0)
    assert.deepEqual(counts(rows, 'fate'), {
      trained: totals.trained,
      evaluated: totals.evaluated,
      dropped: sum(totals.dropped),
      excluded: sum(totals.excluded),
      null: 1,
    })
    const unpaid = rows.filter((row) => row['unpaid_because'] !== null)
    assert.deepEqual(counts(unpaid, 'unpaid_because'), totals.unpaid)
    assert.deepEqual(counts(rows, 'outcome_official'), { 0: 4, 1: 4, null: 4 })
    assert.deepEqual(counts(rows, 'outcome_audited'), { 0: 6, 1: 2, null: 4 })

    const lost = rows.filter(({ disposition }) => disposition === 'infra')
    assert.deepEqual(counts(lost, 'reward'), { null: 2 })
    assert.deepEqual(counts(lost, 'failure'), { 'Sandbox.Lost': 2 })
    const open = rows.find(({ status }) => status === 'unfinished')
    assert.deepEqual([open?.['iteration'], open?.['disposition'], open?.['turns']], [2n, null, null])
    const paid = rows[0]
    // Four turns of at most four are free: the whole reward. Six of six cost half of it.
    assert.deepEqual([paid?.['reward'], rows[1]?.['reward']], [1, -0.5])
    assert.deepEqual([paid?.['turns'], paid?.['sampled_tokens'], paid?.['wall_seconds']], [4n, 60n, 4.5])
    assert.deepEqual(
      [paid?.['recipe_sha256'], paid?.['policy_sha256'], paid?.['task_sha256']],
      ['cd'.repeat(32), 'ab'.repeat(32), 'a'],
    )
  })

  test('CSV has the columns and the values of Parquet, as Python reads it; hostile texts are text', {
    skip: withoutPython,
  }, async () => {
    await write('run', 'csv', 'run.csv')
    await write('run', 'parquet', 'same.parquet')
    const script =
      'import csv, json, sys; print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline="", encoding="utf-8"), strict=True))))'
    const read = JSON.parse(await runPython(script, out('run.csv'))) as Record<string, string>[]
    const typed = await readParquet(out('same.parquet'))
    const hostile = new Map([
      [HOSTILE_TASK, `'${HOSTILE_TASK.replace('\u202e', '\\u{202e}')}`],
      [HOSTILE_REASON.toWellFormed(), '\'=1+1\\u{d}\n"a",b\\u{0}\\u{d800}\\u{1b}[31mred'],
    ])
    const asText = (value: Row[string] | undefined): string => {
      if (value === null || value === undefined) return ''
      const text = String(value)
      return hostile.get(text) ?? text
    }
    assert.equal(read.length, typed.length)
    let seen = 0
    for (const [at, row] of typed.entries()) {
      for (const { name, type } of EPISODE_COLUMNS) {
        const value = row[name]
        if (hostile.has(String(value))) seen += 1
        const expected = type === 'time' && value !== null ? new Date(Number(value)).toISOString() : asText(value)
        const cell = read[at]?.[name]
        // The id holds the task's name, with the same marks in it.
        if (name === 'episode') assert.equal(cell, expected.replace('\u202e', '\\u{202e}'))
        else assert.equal(cell, expected, `${name} of row ${at}`)
      }
    }
    assert.equal(seen, 3, 'both hostile texts were compared, the task’s in two columns')
  })

  test('equal records give equal bytes, and JSON says their hash', async () => {
    for (const format of ['csv', 'parquet']) {
      const first = await write('run', format, `first.${format}`)
      const second = await write('run', format, `second.${format}`)
      assert.equal(first['sha256'], second['sha256'])
      assert.ok((await readFile(out(`first.${format}`))).equals(await readFile(out(`second.${format}`))))
    }
  })

  test('one stage, by its name or by that of its evaluation', async () => {
    for (const name of ['eval-rl', 'rl']) {
      const summary = await write(`run:${name}`, 'parquet', `${name}.parquet`)
      assert.deepEqual(
        [summary['stages'], summary['episodes']],
        [['eval-rl'], { finished: 3, unfinished: 0, unreadable: 0 }],
      )
    }
  })

  test('a corrupt record makes its episode unreadable and stops nothing', async () => {
    await storeExportedRun(own.store, 'damaged')
    const key = episodeKeys.result('damaged/dapo-1/0001/b/01')
    await writeFile(
      own.store.path(key),
      (await readFile(own.store.path(key), 'utf8')).replace('"turns":6', '"turns":7'),
    )
    const summary = await write('damaged:dapo-1', 'parquet', 'damaged.parquet')
    assert.deepEqual(summary['episodes'], { finished: 7, unfinished: 1, unreadable: 1 })
  })

  test('JUnit of an evaluation is the one that CI gets; predictions are those of longhaul predictions', async () => {
    const rows = ['x-1', 'x-2'].map((id) => rebench.row(id))
    const { store, root } = own
    const evaluation = await makeEvaluatedRun({
      store,
      root,
      run: 'night',
      rows,
      attempts: [
        [1, 0],
        ['infra', 'infra'],
      ],
      cutoff: null,
      policy: POLICY,
    })
    const summary = await write('night', 'junit', 'junit.xml')
    assert.deepEqual([summary['evaluation'], summary['tasks']], ['nightly', evaluation.tasks.length])
    const xml = await readFile(out('junit.xml'), 'utf8')
    assert.match(xml, /<testsuites name="eval\/night" tests="2" failures="1" errors="1">/)
    assert.deepEqual(summary['others'], [])
    const record = { ...evaluation, name: 'base' }
    await putPart(own.store, runKeys.evaluation('night', 'base'), record)
    const said = await longhaul('export', 'night', '--format', 'junit', '--out', out('junit.xml'), '--force')
    assert.equal(said.exitCode, 0)
    assert.match(said.stderr, /this is the evaluation night:nightly; the others of the run are night:base\n/)
    assert.equal(await readFile(out('junit.xml'), 'utf8'), xml)
    await write('run:rl', 'predictions', 'a.jsonl')
    assert.equal((await longhaul('predictions', 'run', '--stage', 'eval-rl', '--out', out('b.jsonl'))).exitCode, 0)
    assert.equal(await readFile(out('a.jsonl'), 'utf8'), await readFile(out('b.jsonl'), 'utf8'))
    const [first] = (await readFile(out('a.jsonl'), 'utf8')).split('\n')
    assert.equal((JSON.parse(first ?? '') as Row)['instance_id'], HOSTILE_TASK)
  })

  test('a run whose episodes are all open: a table, and no trajectories', async () => {
    await storeViewedRun(own.store, 'open')
    await storeEpisode(own.store, { run: 'open', turns: 2, hasEnded: false })
    const summary = await write('open', 'parquet', 'open.parquet')
    assert.deepEqual(summary['episodes'], { finished: 0, unfinished: 1, unreadable: 0 })
    for (const format of ['atif', 'trajectories']) {
      const { exitCode, stderr } = await longhaul('export', 'open', '--format', format, '--out', out('none'))
      assert.equal(exitCode, 1)
      assert.match(stderr, /Expected finished episodes in open, dapo-1; 1 have not ended/)
    }
    assert.ok(!(await readdir(own.root)).some((name) => name.includes('none')))
  })

  test('docs/exports.md lists the columns as they are', async () => {
    const page = await readFile(join(import.meta.dirname, '../../../docs/exports.md'), 'utf8')
    const lines = EPISODE_COLUMNS.map(({ name, type, says }) => `| \`${name}\` | ${type} | ${says} |`)
    assert.ok(page.includes(`\n${lines.join('\n')}\n`), `the table of docs/exports.md is to be:\n${lines.join('\n')}`)
  })

  test('what is not there: one error that lists what is, exit 1, and no file', async () => {
    const before = await readdir(own.root)
    const cases: [string[], RegExp][] = [
      [['no-such', '--format', 'csv'], /no run "no-such" is in .*Runs: .*run/],
      [['../run', '--format', 'csv'], /Expected RUN or RUN:STAGE, .*, got "\.\.\/run"/],
      [['run:dapo-9', '--format', 'csv'], /one of dapo-1, eval-rl; got "dapo-9"/],
      [['run:dapo-1', '--format', 'junit'], /with evaluations, one of eval-rl; got "dapo-1"/],
      [['run:rl', '--format', 'junit'], /no evaluation of it/],
      [['run', '--format', 'xlsx'], /Allowed choices are csv, parquet, junit, predictions, atif, trajectories/],
      [['run', '--format', 'csv', '--attempt', '2'], /--attempt beside --format predictions only/],
    ]
    for (const [args, message] of cases) {
      const { exitCode, stdout, stderr } = await longhaul('export', ...args, '--out', out('nothing'))
      assert.equal(exitCode, 1, args.join(' '))
      assert.match(stderr, message)
      assert.equal(stdout, '')
    }
    assert.deepEqual(await readdir(own.root), before)
  })

  test('a file that exists is kept without --force', async () => {
    await writeFile(out('kept.csv'), 'mine')
    const refused = await longhaul('export', 'run', '--format', 'csv', '--out', out('kept.csv'))
    assert.deepEqual([refused.exitCode, await readFile(out('kept.csv'), 'utf8')], [1, 'mine'])
    assert.match(refused.stderr, /--force replaces it/)
    await write('run', 'csv', 'kept.csv', '--force')
    assert.match(await readFile(out('kept.csv'), 'utf8'), /^run,stage,/)
  })
})
