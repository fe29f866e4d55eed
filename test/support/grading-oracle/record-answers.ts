/**
 * Records the findings of the official harnesses in seeded damaged logs, for unit tests that must agree without a harness:
 *
 *   node test/support/grading-oracle/record-answers.ts [KIND…]
 *
 * Checkouts as for `npm run bench:grading-differential`, which compares far more cases with the harnesses themselves.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { gzipSync } from 'node:zlib'
import { logCase, type LogCase } from './log-cases.ts'
import { type OracleAnswer, type OracleKind, startOracle } from './oracle.ts'
import { answersFile, RECORDED_KINDS } from './recorded-answers.ts'

const CASES = 400
/** It has four times as many parsers as the other harnesses. */
const CASES_OF_REBENCH_V2 = 2400
/** Differs from the bench's default seed, so that these cases add to the bench's. */
const SEED = 2026

const kinds = process.argv.length > 2 ? (process.argv.slice(2) as OracleKind[]) : RECORDED_KINDS
for (const kind of kinds) {
  const oracle = await startOracle(kind)
  try {
    const length = kind === 'rebench-v2' ? CASES_OF_REBENCH_V2 : CASES
    const { profile, texts } = oracle
    const cases = Array.from({ length }, (_, index) => logCase({ profile, texts, seed: SEED, index }))
    const answers = await oracle.ask(cases)
    const lines = cases.map((one, index) => JSON.stringify(toLine(one, answers[index])))
    await mkdir(dirname(answersFile(kind)), { recursive: true })
    await writeFile(answersFile(kind), gzipSync(`${lines.join('\n')}\n`, { level: 9 }))
  } finally {
    await oracle.stop()
  }
}

function toLine({ log, ...rest }: LogCase, answer: OracleAnswer | undefined): object {
  return { ...rest, log: Buffer.from(log).toString('base64'), answer }
}
