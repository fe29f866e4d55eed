/**
 * Stored test logs of real agents' runs, graded by every profile and by the official harness that it imitates; every difference is
 * printed and fails the bench. Verdicts that the logs' authors recorded are listed with the reason if they differ from both.
 *
 *   npm run bench:real-logs -- --from DIRECTORY [--rows FILE.jsonl]… [--kind swebench-4.1]… [--other-parsers 4] [--json] [--out FILE]
 *
 * DIRECTORY contains checkouts of repositories that store such logs (docs/grading.md names them): `*.eval.log`, `test_output*.txt`
 * and the files of folders named `test_output`. Tests come from rows (official columns, JSON lines) and from `meta.json` files beside
 * the logs, recorded verdicts from the nearest report. As many other parsers of SWE-rebench-V2 as --other-parsers says read each log
 * too.
 *
 * Harnesses as for `npm run bench:grading-differential`. Exit 1 on any difference, 2 if nothing was compared.
 */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { gradeLog, type GradeLogResult } from '../src/grading/grade-log.ts'
import { LOG_PROFILES } from '../src/grading/log-profiles.ts'
import { PARSERS_V2 } from '../src/grading/parsers/names.ts'
import { compareCase } from '../test/support/grading-oracle/compare.ts'
import type { LogCase } from '../test/support/grading-oracle/log-cases.ts'
import {
  locateHarness,
  missingSource,
  type OracleAnswer,
  type OracleKind,
  startOracle,
} from '../test/support/grading-oracle/oracle.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { findRealLogs, type RealLog } from './support/real-logs.ts'
import { versions } from './support/versions.ts'
import { wholeNumbers } from './support/whole-numbers.ts'

type Kind = Exclude<OracleKind, 'fork-rules'>

const KINDS: readonly Kind[] = ['swebench-4.1', 'swebench-5', 'fork-4.0.3', 'rebench-v2']
const CASES_AT_ONCE = 50

endWith2OnError()
const { values } = benchArguments({
  options: {
    from: { type: 'string' },
    rows: { type: 'string', multiple: true, default: [] },
    kind: { type: 'string', multiple: true },
    'other-parsers': { type: 'string', default: '4' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const unknown = (values.kind ?? []).filter((name) => !KINDS.some((kind) => kind === name))
if (unknown.length > 0) refuseArguments(`Expected --kind of ${KINDS.join(', ')}, got ${unknown.join(', ')}`)
const { 'other-parsers': otherParsers } = wholeNumbers({ 'other-parsers': values['other-parsers'] })
const folder = values.from ?? refuseArguments('Expected --from DIRECTORY, a folder of logs')
const logs = readLogs()

/** One reading of a log: a part of it, a parser, and the tests if any. */
interface Reading {
  log: RealLog
  variant: 'as stored' | 'graded' | 'parser alone' | 'another parser'
  one: LogCase
}

interface Row {
  kind: Kind
  upstream: string
  harnessSha256: string
  cases: Record<string, number>
  differences: number
}

const rows: Row[] = []
const official = new Map<RealLog, boolean | null>()
for (const kind of KINDS.filter((name) => values.kind?.includes(name) ?? true)) {
  const missing = missingSource(kind)
  if (missing !== null && values.kind !== undefined) refuseArguments(`${kind}: ${missing}`)
  if (missing !== null) console.error(`${kind}: left out, ${missing}`)
  else rows.push(await compareKind(kind))
}

const judged = logs.filter(({ recorded, tests }) => recorded !== null && tests !== null)
const differing = judged.filter((log) => official.has(log) && log.recorded !== official.get(log))
const { node, kernel, provenance } = versions()
const result = {
  bench: 'real-logs',
  date: new Date().toISOString(),
  node,
  kernel,
  provenance,
  logs: logs.length,
  withTests: logs.filter(({ tests }) => tests !== null).length,
  megabytes: Math.round(logs.reduce((sum, { raw }) => sum + raw.length, 0) / 1e6),
  /** Hash over the hashes of the logs: identifies the same logs at any location. */
  logsSha256: hashOf(logs.map(({ raw }) => createHash('sha256').update(raw).digest('hex')).toSorted()),
  sources: countBy(logs.map(({ path }) => path.split('/')[0] ?? '')),
  rows,
  recorded: {
    compared: judged.filter((log) => official.has(log)).length,
    differing: differing.map((log) => ({
      log: log.path,
      recorded: log.recorded,
      official: official.get(log) ?? null,
      why: reasonOf(log),
    })),
  },
}
const text = JSON.stringify(result, null, values.json || values.out !== undefined ? 2 : 0)
if (values.out !== undefined) writeFileSync(values.out, `${text}\n`)
console.log(text)
process.exitCode = conclude({
  compared: { logs: logs.length, kinds: rows.length },
  violations: rows.reduce((sum, { differences }) => sum + differences, 0),
})

function readLogs(): RealLog[] {
  try {
    return findRealLogs(folder, values.rows)
  } catch (error) {
    return refuseArguments(error instanceof Error ? error.message : String(error))
  }
}

async function compareKind(kind: Kind): Promise<Row> {
  const { upstream, sha256: harnessSha256 } = await locateHarness(kind)
  const cases: Record<string, number> = {}
  let differences = 0
  const oracle = await startOracle(kind)
  try {
    for (let from = 0; from < logs.length; from += CASES_AT_ONCE) {
      const readings = logs.slice(from, from + CASES_AT_ONCE).flatMap((log) => readingsOf(kind, log))
      const answers = await oracle.ask(readings.map(({ one }) => one))
      for (const [index, { log, variant, one }] of readings.entries()) {
        const answer: OracleAnswer | undefined = answers[index]
        if (answer === undefined) throw new Error(`No answer about ${log.path}`)
        const { difference } = compareCase(oracle.profile, one, answer)
        cases[variant] = (cases[variant] ?? 0) + 1
        if (difference !== null) {
          differences += 1
          if (differences <= 20) console.error(JSON.stringify({ log: log.path, variant, ...difference }).slice(0, 4000))
        }
        if (kind === 'swebench-4.1' && variant === 'graded') official.set(log, answer.resolved ?? null)
      }
    }
  } finally {
    await oracle.stop()
  }
  console.error(`${kind}: ${JSON.stringify(cases)}, ${differences} differences`)
  return { kind, upstream, harnessSha256, cases, differences }
}

function readingsOf(kind: Kind, log: RealLog): Reading[] {
  const byRepository = kind === 'swebench-4.1' || kind === 'fork-4.0.3'
  const parser = byRepository ? (log.repository ?? log.parser) : log.parser
  const reading = (variant: Reading['variant'], more: Partial<LogCase>): Reading => ({
    log,
    variant,
    one: {
      id: 0,
      parser,
      log: log.marked,
      tests: log.tests ?? { failToPass: [], passToPass: [] },
      evalType: 'pass_and_fail',
      ...more,
    },
  })
  const readings = [reading('graded', {})]
  if (kind === 'swebench-4.1') readings.push(reading('as stored', { log: log.raw }))
  if (kind === 'rebench-v2') {
    readings.push(reading('parser alone', { log: log.raw, tests: null }))
    const names = [...PARSERS_V2.keys()]
    const first = Number.parseInt(hashOf([log.path]).slice(0, 8), 16)
    for (let step = 0; step < Math.min(otherParsers, names.length); step += 1) {
      const other = names[(first + step * 17) % names.length] ?? parser
      readings.push(reading('another parser', { parser: other, log: log.raw, tests: null }))
    }
  }
  return readings
}

/** Why today's official harness gives its verdict, in the words of its grading. */
function reasonOf(log: RealLog): string {
  const graded: GradeLogResult = gradeLog({
    profile: LOG_PROFILES['swebench-4.1'],
    parser: log.repository ?? log.parser,
    log: log.marked,
    tests: log.tests,
  })
  if (graded.kind === 'refused') return graded.message
  if (!graded.isFound || graded.tests === null) {
    const code = /^>>>>> (?:Tests Errored|Tests Timed Out|Patch Apply Failed|Reset Failed)/m.exec(
      Buffer.from(log.raw).toString(),
    )?.[0]
    return code === undefined ? 'the log has no part that tests wrote' : `the log holds ${JSON.stringify(code)}`
  }
  if (graded.resolved === true) return 'every listed test passed in this log'
  const failures = [...graded.tests.failToPass.failure, ...graded.tests.passToPass.failure]
  const absent = failures.filter((name) => !graded.statuses.has(name))
  const failed = failures.filter((name) => graded.statuses.has(name))
  const parts = [
    ...(failed.length === 0 ? [] : [`${failed.length} listed tests failed, ${JSON.stringify(failed[0])} first`]),
    ...(absent.length === 0 ? [] : [`${absent.length} are not in the log, ${JSON.stringify(absent[0])} first`]),
  ]
  return parts.join('; ')
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

function hashOf(lines: readonly string[]): string {
  return createHash('sha256').update(lines.join('\n')).digest('hex')
}
