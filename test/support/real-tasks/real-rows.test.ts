import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Provenance } from '../../../bench/support/versions.ts'
import type { AuditOutcome, AuditVerdict } from '../../../src/contracts/audit.types.ts'
import { auditCost, keptRows, provenanceOfRows, timesWithAudit } from './real-rows.ts'

const machine = { cores: 2, processor: 'any', memoryGiB: 24, kernel: '6' }
const at = (date: string, codeHash: string, dirty = false): Provenance => ({
  date,
  commit: `commit of ${date}`,
  dirty,
  machine,
  versions: {},
  codeHash,
})
const row = (taskId: string, did: string, measured?: Provenance) => ({
  taskId,
  image: { did },
  ...(measured === undefined ? {} : { measured }),
})
const audit = (outcome: AuditOutcome, auditMs: number): AuditVerdict => ({
  outcome,
  reasons: [],
  detail: null,
  auditMs,
})

test('a row that the command does not measure stays, with its commit', () => {
  const before = {
    provenance: at('2026-01-02', 'old'),
    results: [row('a', 'built', at('2026-01-01', 'older')), row('b', 'built')],
  }
  const { kept } = keptRows({ before, chosen: ['c'], isContinued: false, codeHash: 'new' })
  assert.deepEqual(
    [...kept.values()].map(({ taskId, measured }) => [taskId, measured.date]),
    [
      ['a', '2026-01-01'],
      ['b', '2026-01-02'],
    ],
  )
})

test('a chosen row is kept only by --continue, for the same code and with an image', () => {
  const now = at('2026-01-02', 'new')
  const before = {
    provenance: now,
    results: [row('a', 'built', now), row('b', 'failed', now), row('c', 'built', at('2026-01-01', 'old'))],
  }
  const chosen = ['a', 'b', 'c']
  const { kept, outdated } = keptRows({ before, chosen, isContinued: true, codeHash: 'new' })
  assert.deepEqual([...kept.keys()], ['a'])
  assert.deepEqual([...outdated.keys()], ['b', 'c'], 'they stay in the file until they are measured again')
  assert.deepEqual([...keptRows({ before, chosen, isContinued: false, codeHash: 'new' }).kept.keys()], [])
})

test('a result has the date of its oldest row and is dirty if any row is', () => {
  const rows = [at('2026-01-03', 'new', true), at('2026-01-01', 'old'), at('2026-01-02', 'new')]
  assert.deepEqual(provenanceOfRows(rows.map((measured) => ({ measured }))), at('2026-01-01', 'old', true))
  assert.equal(provenanceOfRows([]), null)
})

test('the cost of audits covers only gradings whose tests were audited', () => {
  const gradings = [
    // (10 + 5) / 10 = 1.5
    { gradeMs: 10_000, audit: audit('agrees', 5000) },
    // (2 + 6) / 2 = 4
    { gradeMs: 2000, audit: audit('void', 6000) },
    // (3 + 6) / 3 = 3
    { gradeMs: 3000, audit: audit('agrees', 6000) },
    { gradeMs: 1000, audit: audit('unsupported', 900) },
    { gradeMs: 1000, audit: null },
    { gradeMs: 1000 },
  ]
  assert.deepEqual(
    gradings.map((one) => timesWithAudit(one)),
    [1.5, 4, 3, null, null, null],
  )
  assert.deepEqual(auditCost(gradings), {
    gradings: 3,
    officialSeconds: 15,
    auditSeconds: 17,
    times: { least: 1.5, median: 3, most: 4 },
  })
  assert.deepEqual(auditCost([]), { gradings: 0, officialSeconds: 0, auditSeconds: 0, times: null })
})
