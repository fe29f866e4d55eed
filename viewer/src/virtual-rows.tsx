/** A table that holds only visible rows: ten thousand rows cost as much as thirty. */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export const ROW_PX = 28
/** Rows made beyond each edge, so that fast scrolling shows no gap. */
const SPARE = 12
/** With fewer rows than this beyond an edge, the table makes new ones. */
const LEAST_SPARE = 6
/** Height of the tallest table, as a share of the window; the style sheet sets it. */
const TALLEST = 0.7

interface VirtualRowsProps {
  label: string
  columns: readonly string[]
  count: number
  chosen: number
  onChoose: (row: number) => void
  /** Cells of a row. */
  row: (index: number) => ComponentChildren[]
  className?: string
  /** Width of the widest row, as CSS; else the columns' least widths decide. The table scrolls sideways where it is narrower. */
  minWidth?: string
}

export function VirtualRows({
  label,
  columns,
  count,
  chosen,
  onChoose,
  row,
  className = '',
  minWidth,
}: VirtualRowsProps) {
  const box = useRef<HTMLDivElement>(null)
  const [made, setMade] = useState(() => guessRows(chosen))
  const measure = (): void => {
    if (box.current === null) return
    const seen = rowsIn(box.current.scrollTop, box.current.clientHeight)
    // Keeps the rows while they reach far enough beyond the edges, so that a table is not made again for its measured height.
    setMade((before) => (reach(before, seen, count) ? before : withSpare(seen)))
  }
  useEffect(() => {
    addEventListener('resize', measure)
    return () => removeEventListener('resize', measure)
  }, [])
  // Scrolls to the chosen row when a key or an address chose it.
  useLayoutEffect(() => {
    const { current } = box
    if (current === null || chosen < 0) return
    const top = chosen * ROW_PX
    if (top < current.scrollTop) current.scrollTop = top
    else if (top + 2 * ROW_PX > current.scrollTop + current.clientHeight) {
      current.scrollTop = top + 2 * ROW_PX - current.clientHeight
    }
  }, [chosen])
  // In the frame of the choice, not with the scroll event after it.
  useLayoutEffect(measure, [count, chosen])
  const length = Math.max(0, Math.min(count, made.end) - made.first)
  const shown = Array.from({ length }, (_, at) => made.first + at)
  return (
    <div
      class={`rows ${className}`}
      ref={box}
      onScroll={measure}
      role="table"
      aria-label={label}
      aria-rowcount={count + 1}
      tabIndex={0}
      // No taller than its rows; the style sheet sets the maximum.
      style={{ maxHeight: `${(count + 1) * ROW_PX + 6}px` }}
    >
      {/* As wide as the header's columns: the rows' own box has no width of its content, and would cut them at the window's edge. */}
      <div class="wide" style={minWidth === undefined ? undefined : { minWidth: `max(100%, ${minWidth})` }}>
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
    </div>
  )
}

interface RowRange {
  first: number
  /** One past the last row; may exceed the table's count. */
  end: number
}

function rowsIn(top: number, height: number): RowRange {
  return { first: Math.floor(top / ROW_PX), end: Math.ceil((top + height) / ROW_PX) }
}

function withSpare({ first, end }: RowRange): RowRange {
  return { first: Math.max(0, first - SPARE), end: end + SPARE }
}

/** Guesses the rows of a table that is not in the page yet: the chosen row will be the last visible one. */
function guessRows(chosen: number): RowRange {
  const height = TALLEST * innerHeight
  return withSpare(rowsIn(Math.max(0, (chosen + 2) * ROW_PX - height), height))
}

function reach(made: RowRange, seen: RowRange, count: number): boolean {
  const isAbove = made.first <= Math.max(0, seen.first - LEAST_SPARE)
  return isAbove && made.end >= Math.min(count, seen.end + LEAST_SPARE)
}
