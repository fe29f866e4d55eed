/** Spans of time as one line of bars. A thousand of them cost as much as ten: each colour is one path. */
import { useMemo, useRef } from 'preact/hooks'
import { seconds } from './parts.tsx'

export interface Bar {
  /** Class of its path. */
  color: string
  what: string
  fromMs: number
  toMs: number
  note: string
  /** The turn that it leads to. */
  turn: number | null
  /** A moment, or what must be seen however short it is. */
  isMarked: boolean
  /** In the lower half, over a longer one. */
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
/** Of a line of 1,000: what is shorter is drawn as long as that. */
const [MARK, LEAST] = [1.5, 0.3]

export function Bars({ label, bars, endMs, onTurn }: BarsProps) {
  const paths = useMemo(() => pathsOf(bars, endMs), [bars, endMs])
  // Of SVG; the types of JSX know the title of a document alone.
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

/** In the order in which the colours first come, marks above the others. */
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
