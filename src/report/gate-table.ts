import type { GateOutcome, GateReport, TaskGate } from '../contracts/gates.types.ts'
import { gateRepeats } from '../domain/gates/gate-rules.ts'
import { formatOrigin } from './suite-table.ts'
import { number, type Table, text } from './tables.ts'

/** Refusals in the order of the report. */
const REFUSALS = [
  'flaky',
  'gold-fails',
  'empty-resolves',
  'not-auditable',
  'could-not-gate',
] as const satisfies GateOutcome[]
/** A terminal shows this many tasks; the record has all of them. */
const MAX_SLOWEST = 5

/** Refused tasks with their reasons, flipping and failing tests, hidden names, and the slowest tasks; omits empty tables. */
export function gateTables({ gates }: GateReport): Table[] {
  const refused = REFUSALS.flatMap((outcome) => gates.filter((gate) => gate.outcome === outcome))
  const flips = gates.flatMap(({ taskId, flips }) => flips.map((flip) => ({ taskId, ...flip })))
  const failing = gates.filter(({ outcome, failing, exceptions }) => {
    return outcome !== 'passed' && (failing.length > 0 || Object.keys(exceptions).length > 0)
  })
  const hidden = gates.filter(({ hiddenNames }) => hiddenNames.length > 0)
  const tables: Table[] = [
    {
      title: 'Refused tasks',
      columns: [text('task'), text('outcome'), text('reason')],
      rows: refused.map(({ taskId, outcome, reason }) => [taskId, outcome, reason ?? '']),
      notes: [],
    },
    {
      title: 'Tests that flip between repeats',
      columns: [text('task'), text('patch'), text('test'), text('ended')],
      rows: flips.map(({ taskId, check, test, statuses }) => [taskId, check, test, showCounts(statuses)]),
      notes: [],
    },
    {
      title: 'What the gold patch does not make pass',
      columns: [text('task'), text('tests'), text('exceptions in its logs')],
      rows: failing.map(({ taskId, failing, exceptions }) => [taskId, showTests(failing), showCounts(exceptions)]),
      notes: [],
    },
    {
      title: 'Names that only the gold patch brings and tests miss without it',
      columns: [text('task'), text('names')],
      rows: hidden.map(({ taskId, hiddenNames }) => [taskId, hiddenNames.join(', ')]),
      notes: ['No agent can guess them from the statement: the filter hidden-names drops these tasks.'],
    },
    slowestTable(gates),
  ]
  return tables.filter(({ rows }) => rows.length > 0)
}

function slowestTable(gates: readonly TaskGate[]): Table {
  const timed = gates.flatMap((gate) => (gate.gradeMs === null ? [] : [{ ...gate, gradeMs: gate.gradeMs }]))
  const slowest = timed.toSorted((a, b) => b.gradeMs.max - a.gradeMs.max).slice(0, MAX_SLOWEST)
  return {
    title: timed.length > slowest.length ? `The slowest ${slowest.length}` : 'Gradings',
    columns: [text('task'), number('p50 s'), number('max s'), number('peak MiB'), number('gold'), number('empty')],
    rows: slowest.map(({ taskId, gradeMs, peakMemoryBytes, gradings }) => [
      taskId,
      seconds(gradeMs.p50),
      seconds(gradeMs.max),
      mebibytes(peakMemoryBytes),
      String(gradings.gold),
      String(gradings.empty),
    ]),
    notes: [],
  }
}

/** Summary of a gate in one paragraph. */
export function formatGate(report: GateReport): string {
  const { tasks, counts, name, origin, repeats, gradings, gradeMs, peakMemoryBytes, withoutMemory, gates } = report
  const refused = REFUSALS.flatMap((outcome) => (counts[outcome] === 0 ? [] : [`${counts[outcome]} ${outcome}`]))
  const regraded = gates.filter((gate) => gate.regraded > 0).length
  return [
    `${counts.passed} of ${tasks} tasks of ${name} passed (gold × ${repeats}, empty × ${gateRepeats(repeats).empty})${refused.length === 0 ? '' : `: ${refused.join(', ')}`}`,
    `${gradings.total} gradings, ${gradings.reused} of them made before${gradeMs === null ? '' : `; one takes ${seconds(gradeMs.p50)} s (median), ${seconds(gradeMs.max)} s at most`}`,
    `peak memory ${peakMemoryBytes === null ? 'not known: this kernel does not keep it' : `${mebibytes(peakMemoryBytes)} MiB with page cache`}${peakMemoryBytes !== null && withoutMemory > 0 ? `, not known of ${withoutMemory} tasks` : ''}`,
    ...(regraded === 0
      ? []
      : [`${regraded} tasks needed a second container for a grading (no results, a time-out or a broken log)`]),
    ...(origin === undefined || origin === null ? [] : [formatOrigin(origin)]),
  ].join('\n')
}

function showTests(tests: readonly string[]): string {
  return tests.length <= 3 ? tests.join(', ') : `${tests.slice(0, 3).join(', ')} and ${tests.length - 3} more`
}

function showCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, times]) => `${name} × ${times}`)
    .join(', ')
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1)
}

function mebibytes(bytes: number | null): string {
  return bytes === null ? '–' : String(Math.round(bytes / 1024 ** 2))
}
