import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ImportedSuite, RowsFile, SuiteOrigin } from '../../contracts/suites.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import { originOf } from './suite-origin.ts'

const FILTERS = { hiddenNames: 'drop', maxFiles: 7, maxLines: null, dropLlmScore: null, flakyTrials: 50 } as const
const PART = { ids: null, evidence: null, refused: 'fail', limit: null } as const
const HUB = { kind: 'hub', dataset: 'owner/name', revision: 'abc', split: 'test' } as const

const imported = (source: ImportedSuite['source']): ImportedSuite => ({
  schema: 'longhaul.imported-suite/1',
  hash: 'h',
  source,
  files: [{ path: 'data/part-0.parquet', bytes: 10, id: 'sha' }],
  counts: { rows: 5, refused: 0, accepted: 5, kept: 4 },
  filters: [{ filter: { kind: 'max-files', max: 7 }, kept: 4, dropped: 1, lacking: 0 }],
  profiles: {},
  unsupported: 0,
  refused: [],
  tasks: [],
})

function origin(source: SuiteSource, more: Partial<Parameters<typeof originOf>[0]> = {}): SuiteOrigin {
  return originOf({ source, imported: null, file: null, curation: undefined, ...more })
}

test('synthesized tasks are identified by family and seed', () => {
  const source = { kind: 'synthetic', family: 'one-wrong-line', seed: 7, split: 'eval', count: 3, offset: 0 } as const
  assert.deepEqual(origin(source), {
    schema: 'longhaul.suite-origin/1',
    dataset: 'synthetic one-wrong-line',
    revision: 'seed 7',
    split: 'eval',
    files: [],
    filters: [],
  })
})

test('an imported hub data set has its files by name and the number that each filter kept', () => {
  assert.deepEqual(origin({ ...HUB, ...PART, filters: ['files<=7'] }, { imported: imported(HUB) }), {
    schema: 'longhaul.suite-origin/1',
    dataset: 'owner/name',
    revision: 'abc',
    split: 'test',
    files: [{ name: 'part-0.parquet', sha256: 'sha' }],
    filters: [{ filter: 'files<=7', kept: 4 }],
  })
})

test('a hub data set before its import has the requested filters without counts', () => {
  assert.deepEqual(origin({ ...HUB, ...PART, filters: ['files<=7', 'hidden-names'] }), {
    schema: 'longhaul.suite-origin/1',
    dataset: 'owner/name',
    revision: 'abc',
    split: 'test',
    files: [],
    filters: [
      { filter: 'files<=7', kept: null },
      { filter: 'hidden-names', kept: null },
    ],
  })
})

test('a published file has its name without the machine’s path, and no revision or split', () => {
  for (const path of ['/home/me/rows.parquet', 'C:\\data\\rows.parquet', 'rows.parquet']) {
    const { dataset, revision, split } = origin({ kind: 'file', path, ...PART, filters: [] })
    assert.deepEqual([dataset, revision, split], ['rows.parquet', null, null])
  }
})

test('rows with the record of their import have their data set and its filters before the recipe’s own', () => {
  const file: RowsFile = { name: 'rows.jsonl', sha256: 'f00d', imported: imported(HUB) }
  assert.deepEqual(origin({ kind: 'rows', path: 'a/rows.jsonl', limit: null }, { file, curation: FILTERS }), {
    schema: 'longhaul.suite-origin/1',
    dataset: 'owner/name',
    revision: 'abc',
    split: 'test',
    files: [{ name: 'rows.jsonl', sha256: 'f00d' }],
    filters: [
      { filter: 'files<=7', kept: 4 },
      { filter: 'files<=7', kept: null },
    ],
  })
})

test('a file of unknown rows has only its name', () => {
  assert.deepEqual(origin({ kind: 'rows', path: 'a/rows.jsonl', limit: null }), {
    schema: 'longhaul.suite-origin/1',
    dataset: 'rows.jsonl',
    revision: null,
    split: null,
    files: [],
    filters: [],
  })
})
