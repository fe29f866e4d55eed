/** A table that holds only the rows in sight: ten thousand of them cost as much as thirty. */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export const ROW_PX = 28
/** Rows beyond the edge, so that fast scrolling shows no gap. */
const SPARE = 12
/** Height of a table that is not in the page yet. */
const GUESS_PX = 600

interface VirtualRowsProps {
  label: string
  columns: readonly string[]
  count: number
  chosen: number
  onChoose: (row: number) => void
  /** Cells of a row. */
  row: (index: number) => ComponentChildren[]
  className?: string
}

export function VirtualRows({ label, columns, count, chosen, onChoose, row, className = '' }: VirtualRowsProps) {
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: Math.max(0, (chosen + 2) * ROW_PX - GUESS_PX), height: GUESS_PX })
  const measure = (): void => {
    const { scrollTop: top = 0, clientHeight: height = GUESS_PX } = box.current ?? {}
    setView((before) => (before.top === top && before.height === height ? before : { top, height }))
  }
  useEffect(() => {
    addEventListener('resize', measure)
    return () => removeEventListener('resize', measure)
  }, [])
  // The chosen row is brought into sight when a key or an address chose it.
  useLayoutEffect(() => {
    const { current } = box
    if (current === null || chosen < 0) return
    const top = chosen * ROW_PX
    if (top < current.scrollTop) current.scrollTop = top
    else if (top + 2 * ROW_PX > current.scrollTop + current.clientHeight) {
      current.scrollTop = top + 2 * ROW_PX - current.clientHeight
    }
  }, [chosen])
  // With the frame of the choice, not with the scroll event after it.
  useLayoutEffect(measure, [count, chosen])
  const first = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE)
  const last = Math.min(count, Math.ceil((view.top + view.height) / ROW_PX) + SPARE)
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at)
  return (
    <div
      class={`rows ${className}`}
      ref={box}
      onScroll={measure}
      role="table"
      aria-label={label}
      aria-rowcount={count + 1}
      tabIndex={0}
      // No taller than its rows: the style sheet has the most.
      style={{ maxHeight: `${(count + 1) * ROW_PX + 6}px` }}
    >
      <div class="row head" role="row" aria-rowindex={1}>
        {columns.map((name) => (
          <span role="columnheader" key={name}>
            {name}
          </span>
        ))}
      </div>
      <div class="space" role="rowgroup" style={{ height: `${count * ROW_PX}px` }}>
        {shown.map((index) => (
          <div
            class={index === chosen ? 'row chosen' : 'row'}
            role="row"
            aria-rowindex={index + 2}
            aria-current={index === chosen ? 'true' : undefined}
            key={index}
            style={{ top: `${index * ROW_PX}px` }}
            onClick={() => onChoose(index)}
          >
            {row(index).map((cell, at) => (
              <span role="cell" key={columns[at] ?? at}>
                {cell}
              </span>
            ))}
          </div>
        ))}
      </div>
    </div>
  )
}
