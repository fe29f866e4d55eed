import type { FilterClass, ImportedSuite, SuiteFilter } from '../contracts/suites.types.ts'
import { showFilter } from '../domain/gates/filter-words.ts'
import { number, type Table, text } from './tables.ts'

/** What each filter left, then every refused row; tables without rows are left out. */
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
    rows: refused.map(({ row, at, taskId, column, reason }) => [String(row), at, taskId ?? '–', column, reason]),
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

export function sayImport({ hash, counts, profiles, unsupported }: ImportedSuite, output: string | null): string {
  const kinds = Object.entries(profiles).map(([profile, tasks]) => `${tasks} of ${profile}`)
  return [
    `${counts.kept} of ${counts.rows} rows kept, ${counts.refused} refused${kinds.length === 0 ? '' : ` (${kinds.join(', ')})`}`,
    ...(unsupported === 0 ? [] : [`${unsupported} kept tasks have a log parser that this version does not have`]),
    output === null
      ? 'Nothing was written: --skip-refused makes a suite without the refused rows'
      : `suite ${hash.slice(0, 12)} in ${output}`,
  ].join('\n')
}
