import type { Table } from './tables.ts'

/** A heading, the table and its notes. Cells are hostile text: nothing in them may start markup or end the cell. */
export function renderMarkdownTable({ title, columns, rows, notes }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(escapeMarkdown).join(' | ')} |`
  return [
    `### ${escapeMarkdown(title)}`,
    '',
    line(columns.map(({ name }) => name)),
    `|${columns.map(({ numeric }) => (numeric ? '---:' : '---')).join('|')}|`,
    ...rows.map(line),
    ...notes.flatMap((note) => ['', escapeMarkdown(note)]),
  ].join('\n')
}

function escapeMarkdown(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '�')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/[\\`*_[\]|~]/g, (character) => `\\${character}`)
}
