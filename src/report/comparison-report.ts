import { type ComparisonData, nameOf } from './comparison-data.ts'
import { changeTable, effortChangeTable, flipTable, saidBelow, sideTable } from './comparison-tables.ts'
import { escapeHtml } from './escape.ts'
import { renderPage } from './html-page.ts'
import { renderHtmlTable } from './html-table.ts'
import { renderMarkdownTable } from './markdown-table.ts'
import type { Table } from './tables.ts'
import { renderTable } from './text-report.ts'

function tablesOf(data: ComparisonData): Table[] {
  return [sideTable, changeTable, effortChangeTable, flipTable]
    .map((make) => make(data))
    .filter(({ rows }) => rows.length > 0)
}

export function renderTextComparison(data: ComparisonData): string {
  return [...tablesOf(data).map(renderTable), saidBelow(data).join('\n'), data.verdicts.join('\n')]
    .filter((part) => part !== '')
    .join('\n\n')
}

/** For a job summary: tables, then words, then the verdict. */
export function renderMarkdownComparison(data: ComparisonData): string {
  const words = [...saidBelow(data), ...data.verdicts.map((verdict) => `**${verdict}**`)]
  return `${[...tablesOf(data).map(renderMarkdownTable), ...words].join('\n\n')}\n`
}

/** One static file: no script, nothing fetched, the same bytes for the same data. */
export function renderHtmlComparison(data: ComparisonData): string {
  const title = `${nameOf(data.after)} against ${nameOf(data.before)}`
  const words = [...data.verdicts, ...saidBelow(data)].map((line) => `<p class="words">${escapeHtml(line)}</p>`)
  return renderPage({
    title,
    body: [`<header><h1>${escapeHtml(title)}</h1></header>`, ...words, ...tablesOf(data).map(renderHtmlTable)],
  })
}
