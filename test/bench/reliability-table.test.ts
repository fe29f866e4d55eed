import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { SeedReport } from '../support/chaos/play-seed.ts'
import { reliabilityTable, withTable } from '../support/chaos/reliability-table.ts'

function report(seed: number, commit?: string): SeedReport {
  const facts = { kind: 'evaluation', wallS: 1, episodes: 2, turns: 3, sampledAgain: 0, restarts: 0 } as const
  const cells = [{ fault: 'kill-sandbox', phase: 'sampling', struck: true } as SeedReport['cells'][number]]
  return { seed, ...facts, cells, violations: [], ...(commit === undefined ? {} : { commit }) }
}

function table(reports: SeedReport[]): string {
  const totals = { firstSeed: 1, minutes: 1, violations: 0, failures: [] }
  return reliabilityTable(
    {
      date: '2026-01-01T00:00:00Z',
      seeds: reports.length,
      ...totals,
      reports,
      commit: 'b'.repeat(40),
    },
    'directory',
  )
}

void test('names one commit once', () => {
  assert.match(table([report(1), report(2, 'b'.repeat(40))]), /^\| commit \| bbbbbbbbbbbb \|$/m)
})

void test('names each commit with its seeds when several were measured', () => {
  const text = table([report(1, 'a'.repeat(40)), report(2, 'a'.repeat(40)), report(3)])
  assert.match(text, /^\| commit \| aaaaaaaaaaaa: 2 seeds from 1 to 2; bbbbbbbbbbbb: 1 seed, 3 \|$/m)
})

void test('replaces only the table of its own setting on the page', () => {
  const start = 'Text.\n\n<!-- everything from here to the next mark is written by npm run chaos -->\n'
  const page = withTable(withTable(withTable(start, 'pods', 'pods'), 'directory', 'one'), 's3', 'two')
  assert.match(page, /^Text\.[^]*\none\n[^]*\ntwo\n[^]*--sandboxes pods -->\n\npods\n$/)
  assert.equal(withTable(page, 'directory', 'one'), page)
  assert.equal(withTable(page, 's3', 'three'), page.replace('two', 'three'))
})
