/** Where the tasks come from: what has to be named beside a score for anyone to repeat it. */
import type { SuiteOrigin } from '../contracts/suites.types.ts'
import type { ReportData } from './report-data.ts'
import { number, type Table, text } from './tables.ts'

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

/** One line, for the end of a command. */
export function sayOrigin({ dataset, revision, split, files, filters }: SuiteOrigin): string {
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
