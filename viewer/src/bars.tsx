/** Spans of time as one line of bars. Each colour is one path, so a thousand bars cost as much as ten. */
import { useMemo, useRef } from 'preact/hooks'
import { seconds } from './parts.tsx'

export interface Bar {
  /** Class of its path. */
  color: string
  what: string
  fromMs: number
  toMs: number
  note: string
  /** The turn that a click opens. */
  turn: number | null
  /** A moment, or a span that must be visible however short it is. */
  isMarked: boolean
  /** Drawn in the lower half, over a longer bar. */
  isLow?: boolean
}

interface BarsProps {
  label: string
  bars: readonly Bar[]
  /** Length of the line. */
  endMs: number
  onTurn?: (turn: number) => void
}

const [WIDTH, HEIGHT, LOW] = [1_000, 24, 14]
/** Least lengths of a drawn bar, on a line of 1,000. */
const [MARK, LEAST] = [1.5, 0.3]

export function Bars({ label, bars, endMs, onTurn }: BarsProps) {
  const paths = useMemo(() => pathsOf(bars, endMs), [bars, endMs])
  // An SVG title; JSX has only the type of a document's title.
  const title = useRef<HTMLTitleElement>(null)
  const barAt = (event: MouseEvent & { currentTarget: SVGSVGElement }): Bar | undefined => {
    const { left, top, width } = event.currentTarget.getBoundingClientRect()
    const [x, y] = [((event.clientX - left) / width) * WIDTH, event.clientY - top]
    return bars.findLast((bar) => {
      const [from, length] = placeOf(bar, endMs)
      return x >= from && x <= from + length && (bar.isLow !== true || y >= LOW)
    })
  }
  return (
    <svg
      class="timeline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
      onMouseMove={(event) => {
        if (title.current !== null) title.current.textContent = sayBar(barAt(event))
      }}
      onClick={(event) => {
        const turn = barAt(event)?.turn ?? null
        if (turn !== null) onTurn?.(turn)
      }}
    >
      <g>
        <title ref={title} />
        {paths.map(([color, path]) => (
          <path key={color} class={color} d={path} />
        ))}
      </g>
    </svg>
  )
}

/** A path per colour, in the order of their first use; marked and low bars are drawn last. */
function pathsOf(bars: readonly Bar[], endMs: number): [color: string, path: string][] {
  const paths = new Map<string, string[]>()
  const above = (bar: Bar): number => (bar.isLow === true || bar.isMarked ? 1 : 0)
  for (const bar of bars.toSorted((a, b) => above(a) - above(b))) {
    const [from, length] = placeOf(bar, endMs)
    const top = bar.isLow === true ? LOW : 0
    const path = paths.get(bar.color) ?? []
    path.push(`M${from.toFixed(2)} ${top}h${length.toFixed(2)}V${HEIGHT}h-${length.toFixed(2)}z`)
    paths.set(bar.color, path)
  }
  return [...paths].map(([color, parts]) => [color, parts.join('')])
}

function placeOf({ fromMs, toMs, isMarked }: Bar, endMs: number): [from: number, length: number] {
  return [(fromMs / endMs) * WIDTH, Math.max(isMarked ? MARK : LEAST, ((toMs - fromMs) / endMs) * WIDTH)]
}

function sayBar(bar: Bar | undefined): string {
  if (bar === undefined) return ''
  const { what, turn, fromMs, toMs, note } = bar
  return `${what}${turn === null ? '' : ` of turn ${turn}`}: ${seconds(toMs - fromMs)} ${note}`
}
