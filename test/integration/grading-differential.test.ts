/**
 * Longhaul's grading against the official harnesses themselves, on seeded damaged logs: the same status maps, verdicts, lists
 * and kinds of error. `npm run bench:grading-differential` does the same with 20,000 logs for each.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareCase } from '../support/grading-oracle/compare.ts'
import { compareMany } from '../support/grading-oracle/compare-many.ts'
import type { LogCase } from '../support/grading-oracle/log-cases.ts'
import { missingSource, type OracleKind, startOracle } from '../support/grading-oracle/oracle.ts'

/** About ten seconds of CPU for all kinds. */
const CASES = 500
const SEED = 20_261_121

const PACKAGED = ['swebench-4.1', 'fork-rules', 'swebench-5'] as const
const FROM_SOURCE = ['fork-4.0.3', 'rebench-v2'] as const

for (const kind of PACKAGED) {
  test(`${kind}: damaged logs are graded as the harness grades them`, () => assertEqual(kind))
}

for (const kind of FROM_SOURCE) {
  const missing = missingSource(kind)
  test(
    `${kind}: damaged logs are graded as the harness grades them`,
    {
      skip: missing === null ? false : `${missing}; the committed result is bench/results/grading-differential.json`,
    },
    () => assertEqual(kind),
  )
}

test('the comparison finds a log that two versions grade differently', async () => {
  const lines = ['>>>>> Start Test Output', 'SKIPPED [3] a.py:1: why', '>>>>> End Test Output']
  const one: LogCase = {
    id: 0,
    parser: 'parse_log_pytest',
    log: new TextEncoder().encode(lines.join('\n')),
    tests: { failToPass: [], passToPass: [] },
    evalType: 'pass_and_fail',
  }
  const oracle = await startOracle('swebench-4.1')
  try {
    const [answer] = await oracle.ask([one])
    assert.ok(answer)
    assert.equal(compareCase('swebench-4.1', one, answer).difference, null)
    assert.equal(compareCase('swebench-5', one, answer).difference?.what, 'statusMap')
    assert.equal(compareCase('swebench-4.1', one, { ...answer, resolved: false }).difference?.what, 'resolved')
    assert.equal(compareCase('swebench-4.1', one, { id: 0, error: 'KeyError: x' }).difference?.what, 'error')
  } finally {
    await oracle.stop()
  }
})

async function assertEqual(kind: OracleKind): Promise<void> {
  const { differences, outcomes } = await compareMany({ kind, seed: SEED, cases: CASES })
  assert.deepEqual(differences, [])
  for (const outcome of ['error', 'parser alone', 'resolved', 'unresolved', 'not found or empty'] as const) {
    assert.ok(outcomes[outcome] > 0, `no case ended as ${outcome}`)
  }
}
