/** Small parts that several pages show. */
import type { Table } from '../../src/report/tables.ts'
import type { EpisodeRow } from '../../src/viewer/pages.types.ts'
import { type DiffLine, diffLines } from '../../src/viewer/shared/diff-lines.ts'
import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { Loaded } from './data.ts'
import { LINE_CHARS, visibleParts } from '../../src/viewer/shared/visible-text.ts'
import { Visible } from './text.tsx'
import { VirtualRows } from './virtual-rows.tsx'

interface WaitingProps {
  of: Loaded<never> | { state: string; why?: string }
  what: string
}

export function Waiting({ of, what }: WaitingProps) {
  if (of.state === 'failed') {
    return (
      <p role="alert">
        Could not read {what}: <Visible text={'why' in of ? (of.why ?? '') : ''} />
      </p>
    )
  }
  return <p role="status">Reading {what} …</p>
}

interface WaitingPageProps extends WaitingProps {
  title: string
  /** Where a reader of an address that leads nowhere can go. */
  up: ComponentChildren
  /** What helps such a reader besides. */
  children?: ComponentChildren
}

/** A page that has nothing to show yet, or never will. */
export function WaitingPage({ title, up, children, ...waiting }: WaitingPageProps) {
  return (
    <main>
      <p>{up}</p>
      <h1>
        <Visible text={title} />
      </h1>
      <Waiting {...waiting} />
      {children}
    </main>
  )
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
  const width = useMemo(() => Math.max(0, ...lines.map(({ text }) => columnsOf(text))), [lines])
  return (
    <VirtualRows
      label={label}
      columns={['before', 'after', 'line']}
      count={lines.length}
      chosen={-1}
      onChoose={() => undefined}
      className="diff"
      minWidth={`calc(11rem + ${width}ch)`}
      row={(index) => {
        const line = lines[index]
        if (line === undefined) return []
        const isCode = line.kind === 'added' || line.kind === 'removed' || line.kind === 'context'
        return [
          line.before ?? '',
          line.after ?? '',
          <code class={line.kind}>
            {SIGNS[line.kind]}
            <Visible text={(isCode ? line.text.slice(1) : line.text).slice(0, LINE_CHARS)} />
          </code>,
        ]
      }}
    />
  )
}

/** The columns that a line takes at most: a tab takes eight, and a character beyond ASCII may be twice as wide. */
function columnsOf(line: string): number {
  let columns = 0
  for (const { text } of visibleParts(line.slice(0, LINE_CHARS))) {
    for (const char of text) columns += char === '\t' ? 8 : char <= '~' ? 1 : 2
  }
  return columns
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
