/** Small parts that several pages show. */
import type { Table } from '../../src/report/tables.ts'
import type { EpisodeRow } from '../../src/viewer/pages.types.ts'
import { type DiffLine, diffLines } from '../../src/viewer/shared/diff-lines.ts'
import { useMemo } from 'preact/hooks'
import type { Loaded } from './data.ts'
import { Visible } from './text.tsx'
import { VirtualRows } from './virtual-rows.tsx'

export function Waiting({ of, what }: { of: Loaded<never> | { state: string; why?: string }; what: string }) {
  if (of.state === 'failed') {
    return (
      <p role="alert">
        {what}: <Visible text={'why' in of ? (of.why ?? '') : ''} />
      </p>
    )
  }
  return <p role="status">Reading {what} …</p>
}

export function TableView({ table: { title, columns, rows, notes } }: { table: Table }) {
  return (
    <section class="table">
      <h3>{title}</h3>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}>
        <table>
          <thead>
            <tr>
              {columns.map(({ name, numeric }, at) => (
                <th key={at} scope="col" class={numeric ? 'number' : ''}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((cells, at) => (
              <tr key={at}>
                {cells.map((cell, column) => (
                  <td key={column} class={columns[column]?.numeric === true ? 'number' : ''}>
                    <Visible text={cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {notes.map((note, at) => (
        <p class="note" key={at}>
          <Visible text={note} />
        </p>
      ))}
    </section>
  )
}

const SIGNS: Record<DiffLine['kind'], string> = {
  added: '+',
  removed: '−',
  context: ' ',
  file: '',
  hunk: '',
  plain: '',
}

/** Lines of a patch; the page holds only visible ones. */
export function Diff({ patch, label }: { patch: string; label: string }) {
  const lines = useMemo(() => diffLines(patch), [patch])
  return (
    <VirtualRows
      label={label}
      columns={['before', 'after', 'line']}
      count={lines.length}
      chosen={-1}
      onChoose={() => undefined}
      className="diff"
      row={(index) => {
        const line = lines[index]
        if (line === undefined) return []
        const isCode = line.kind === 'added' || line.kind === 'removed' || line.kind === 'context'
        return [
          line.before ?? '',
          line.after ?? '',
          <code class={line.kind}>
            {SIGNS[line.kind]}
            <Visible text={(isCode ? line.text.slice(1) : line.text).slice(0, 2_000)} />
          </code>,
        ]
      }}
    />
  )
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 0)} s`
}

/** The state in words; the colour adds nothing to them. */
export function Outcome({ row }: { row: Pick<EpisodeRow, 'state' | 'verdict'> & Partial<EpisodeRow> }) {
  const word = row.verdict ?? row.state
  return (
    <span class={`outcome ${word}`}>
      {word === 'resolved' ? '✓ ' : word === 'unresolved' ? '✗ ' : word === 'running' ? '… ' : '– '}
      {word}
      {row.hack === true ? ' ⚠ hack' : ''}
    </span>
  )
}
