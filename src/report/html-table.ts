import { escapeHtml } from './escape.ts'
import type { Table } from './tables.ts'

/** A heading, the table and its notes; nothing for a table without rows. */
export function renderHtmlTable({ title, columns, rows, notes }: Table): string {
  if (rows.length === 0) return ''
  const cell = (tag: 'th' | 'td', content: string, column: number): string =>
    `<${tag}${columns[column]?.numeric ? ' class="number"' : ''}>${escapeHtml(content)}</${tag}>`
  const header = columns.map(({ name }, column) => cell('th', name, column)).join('')
  const body = rows.map((row) => `<tr>${row.map((content, column) => cell('td', content, column)).join('')}</tr>`)
  return `<h2>${escapeHtml(title)}</h2>
<div class="scroll"><table>
<thead><tr>${header}</tr></thead>
<tbody>
${body.join('\n')}
</tbody>
</table></div>
${notes.map((note) => `<p class="note">${escapeHtml(note)}</p>`).join('\n')}`
}
