/** Tables of suites: origin of the tasks, import, difficulty, images. */
import type { FilterClass, ImportedSuite, SuiteFilter, SuiteOrigin } from '../contracts/suites.types.ts'
import type { ReportData } from './report-data.ts'
import { type Table, number, text } from './tables.ts'
import { showFilter } from '../domain/gates/filter-words.ts'
import type { CurationDecision, TaskDifficulty } from '../domain/statistics/task-difficulty.ts'
import { showInterval } from './means.ts'
import type { BuiltTaskImage, FailedTaskImage } from '../contracts/task-images.types.ts'
import type { GateOutcome, GateReport, TaskGate } from '../contracts/gates.types.ts'
import { gateRepeats } from '../domain/gates/gate-rules.ts'

export function suiteTable({ suites }: Pick<ReportData, 'suites'>): Table {
  return {
    title: 'Suites',
    columns: [
      text('suite'),
      text('used for'),
      text('data set'),
      text('revision'),
      text('split'),
      text('files'),
      text('filters, in order'),
      number('tasks'),
    ],
    rows: suites.map(({ suite, uses, origin, tasks }) => [
      suite.slice(0, 12),
      uses.join(', '),
      origin?.dataset ?? '–',
      origin?.revision ?? '–',
      origin?.split ?? '–',
      origin === null || origin.files.length === 0 ? '–' : origin.files.map(showFile).join(', '),
      origin === null || origin.filters.length === 0 ? '–' : origin.filters.map(showKept).join(', '),
      String(tasks),
    ]),
    notes: [
      'Tasks: of the suite, before the gate. A file is pinned by its SHA-256, a data set by its revision; – where an earlier version did not record it.',
    ],
  }
}

/** One line for the end of a command. */
export function formatOrigin({ dataset, revision, split, files, filters }: SuiteOrigin): string {
  const [file, ...more] = files
  const pinned = [
    ...(revision === null ? [] : [`at ${revision}`]),
    ...(split === null ? [] : [`split ${split}`]),
    ...(file === undefined ? [] : [`file ${showFile(file)}${more.length === 0 ? '' : ` and ${more.length} more`}`]),
    ...(filters.length === 0 ? [] : [`filtered by ${filters.map(showKept).join(', ')}`]),
  ]
  return `data set  ${[dataset, ...pinned].join(', ')}`
}

function showFile({ name, sha256 }: SuiteOrigin['files'][number]): string {
  return sha256 === null ? name : `${name} (${sha256.slice(0, 12)})`
}

function showKept({ filter, kept }: SuiteOrigin['filters'][number]): string {
  return kept === null ? filter : `${filter} (${kept} left)`
}

/** Characters of the id of a refused row. */
const MOST_OF_AN_ID = 80

/** What each filter left, then every refused row; omits empty tables. */
export function importTables({ counts, filters, refused }: ImportedSuite, classes: readonly FilterClass[]): Table[] {
  const filterTable: Table = {
    title: 'Filters, in order',
    columns: [text('filter'), number('kept'), number('dropped'), number('without its data')],
    rows: [
      ['(rows that can be graded)', String(counts.accepted), String(counts.refused), '0'],
      ...filters.map(({ filter, kept, dropped, lacking }) => [
        showFilter(filter),
        String(kept),
        String(dropped),
        String(lacking),
      ]),
    ],
    notes: ['A task without the data that a filter reads is left out: nothing is kept on trust.'],
  }
  const classTable: Table = {
    title: 'Tasks by the filters that they fail',
    columns: [text('fail'), text('lack the data of'), number('tasks')],
    rows: classes.map(({ dropped, lacking, tasks }) => [
      dropped.length + lacking.length === 0 ? '(none: kept)' : showAll(dropped),
      showAll(lacking),
      String(tasks),
    ]),
    notes: ['Each filter was asked about every task: what is kept does not depend on the order of filters.'],
  }
  const refusedTable: Table = {
    title: 'Refused rows',
    columns: [number('row'), text('at'), text('task'), text('column'), text('reason')],
    rows: refused.map(({ row, at, taskId, column, reason }) => [
      String(row),
      at,
      // Not checked: a table is as wide as its widest cell.
      (taskId ?? '–').slice(0, MOST_OF_AN_ID),
      column,
      reason,
    ]),
    notes: [],
  }
  return [
    ...(filters.length === 0 ? [] : [filterTable]),
    ...(filters.length < 2 ? [] : [classTable]),
    ...(refused.length === 0 ? [] : [refusedTable]),
  ]
}

function showAll(filters: readonly SuiteFilter[]): string {
  return filters.length === 0 ? '–' : filters.map(showFilter).join(' ')
}

export function formatImport({ hash, counts, profiles, unsupported }: ImportedSuite, output: string | null): string {
  const kinds = Object.entries(profiles).map(([profile, tasks]) => `${tasks} of ${profile}`)
  return [
    `${counts.kept} of ${counts.rows} rows kept, ${counts.refused} refused${kinds.length === 0 ? '' : ` (${kinds.join(', ')})`}`,
    ...(unsupported === 0 ? [] : [`${unsupported} kept tasks have a log parser that this version does not have`]),
    output === null
      ? `Nothing was written: ${counts.kept === 0 ? 'no row is left for a suite' : '--skip-refused makes a suite without the refused rows'}`
      : `suite ${hash.slice(0, 12)} in ${output}`,
  ].join('\n')
}

type CuratedTask = TaskDifficulty & { decision: CurationDecision }

/** Hardest tasks first. */
export function curationTable(tasks: readonly CuratedTask[]): Table {
  return {
    title: 'Difficulty of tasks, from stored attempts',
    columns: [
      text('task'),
      number('resolved'),
      number('rate'),
      number('95 % interval'),
      number('lost'),
      number('runs'),
      number('policies'),
      text('second stage'),
    ],
    rows: tasks
      .toSorted((a, b) => a.rate - b.rate || (a.taskId < b.taskId ? -1 : 1))
      .map(({ taskId, resolved, attempts, rate, interval, lost, runs, policies, decision }) => [
        taskId,
        `${resolved} of ${attempts}`,
        attempts === 0 ? '–' : rate.toFixed(3),
        showInterval(interval),
        String(lost),
        String(runs.length),
        String(policies.length),
        decision,
      ]),
    notes: [
      'Wilson’s interval of the solve rate, as if every attempt were of one policy; lost: attempts without an outcome, which count nowhere.',
    ],
  }
}

export function formatCuration(tasks: readonly CuratedTask[]): string {
  const count = (decision: CurationDecision): number => tasks.filter((task) => task.decision === decision).length
  const attempts = tasks.reduce((sum, task) => sum + task.attempts, 0)
  const rows = tasks.length - new Set(tasks.map(({ taskId }) => taskId)).size
  return [
    `${count('kept')} of ${tasks.length} tasks kept: ${count('solved-often')} solved too often, ${count('never-solved')} never (${attempts} graded attempts)`,
    ...(rows === 0 ? [] : [`${rows} ids stand for more than one row of the data set: each row is listed by itself`]),
  ].join('\n')
}

/** What became of one task's image. */
type Result = BuiltTaskImage | FailedTaskImage

export function imageTable(results: readonly Result[]): Table {
  return {
    title: 'Images',
    columns: [text('task'), text('image'), text('Python'), number('MB'), number('own MB'), number('s'), text('notes')],
    rows: results.map((result) => [
      result.taskId,
      result.did,
      pythonOf(result),
      ...(result.did === 'failed' ? ['–', '–'] : [megabytes(result.bytes), megabytes(result.ownBytes)]),
      result.seconds.toFixed(1),
      result.did === 'failed' ? `stage ${result.stage}` : notesOf(result),
    ]),
    notes: [
      'MB: of the whole image. Own MB: what it does not share with its environment. Present: existed already, not built here.',
    ],
  }
}

function pythonOf(result: Result): string {
  if (result.did === 'failed' || result.record === null) return '–'
  const { version, kind } = result.record.python
  return `${version} (${kind})`
}

function notesOf({ record }: BuiltTaskImage): string {
  return record === null || record.deviations.length === 0 ? '' : record.deviations.join('; ')
}

function megabytes(bytes: number): string {
  return String(Math.round(bytes / 1e6))
}

/** The failures in full, then one line. */
export function formatImages(results: readonly Result[]): string {
  const failed = results.filter((result) => result.did === 'failed')
  const of = (did: Result['did']): number => results.filter((result) => result.did === did).length
  const line = `${results.length} tasks: ${of('built')} built, ${of('found')} found, ${of('present')} present, ${of('failed')} failed`
  return [...failed.map(({ taskId, code, message }) => `${taskId}: ${code}: ${message}`), line].join('\n')
}

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
