/** Lines over steps or time, with an optional band: one standard error, or an interval. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

export interface CurveSeries {
  label: string
  points: { x: number; y: number; sem?: number; low?: number; high?: number }[]
}

const COLORS = {
  light: ['#0b62a8', '#a8480b', '#2c7a3f', '#7a2c74'],
  dark: ['#5aa9e6', '#e8935a', '#6cc083', '#d68bd0'],
}

export interface CurveProps {
  label: string
  series: CurveSeries[]
  /** `time`: x is in seconds since 1970. @default "step" */
  over?: 'step' | 'time'
}

export function Curve({ label, series, over = 'step' }: CurveProps) {
  const box = useRef<HTMLDivElement>(null)
  const isDark = useDark()
  useEffect(() => {
    const { current } = box
    if (current === null) return
    let plot: uPlot | null = null
    let isWanted = true
    // uPlot is in the same script but queries languages and time zone when it runs; pages without curves do not wait for that.
    void import('uplot').then(({ default: Plot }) => {
      if (isWanted) plot = new Plot(optionsOf({ series, over, isDark, box: current }), dataOf(series), current)
    })
    const resize = (): void => plot?.setSize({ width: current.clientWidth, height: HEIGHT })
    addEventListener('resize', resize)
    return () => {
      isWanted = false
      removeEventListener('resize', resize)
      plot?.destroy()
    }
  }, [series, over, isDark])
  return (
    <figure>
      <figcaption>{label}</figcaption>
      <div
        class="curve"
        ref={box}
        role="img"
        aria-label={`${label}: ${series.map((one) => sayLast(one, over)).join('; ')}`}
      />
    </figure>
  )
}

const HEIGHT = 240

/** A canvas knows no style sheet: the curve is drawn again when the scheme changes. */
function useDark(): boolean {
  const [scheme] = useState(() => matchMedia('(prefers-color-scheme: dark)'))
  const [isDark, setDark] = useState(scheme.matches)
  useEffect(() => {
    const follow = (): void => setDark(scheme.matches)
    scheme.addEventListener('change', follow)
    return () => scheme.removeEventListener('change', follow)
  }, [scheme])
  return isDark
}

function sayLast({ label, points }: CurveSeries, over: 'step' | 'time'): string {
  const last = points.at(-1)
  if (last === undefined) return `${label}: nothing`
  const at = over === 'step' ? `step ${last.x}` : new Date(1000 * last.x).toISOString().slice(0, 10)
  return `${label}: last ${last.y.toPrecision(4)} at ${at}`
}

/** The mean of each series and, where it has a band, the band's edges. */
function dataOf(series: CurveSeries[]): uPlot.AlignedData {
  const xs = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b)
  const lines = series.flatMap((one) => {
    const { points } = one
    const at = new Map(points.map((point) => [point.x, point]))
    const edge = (side: number) =>
      xs.map((x) => {
        const point = at.get(x)
        const { low, high } = bandOf(point)
        return (side > 0 ? high : low) ?? null
      })
    const mean = xs.map((x) => at.get(x)?.y ?? null)
    return hasBand(one) ? [mean, edge(1), edge(-1)] : [mean]
  })
  return [xs, ...lines]
}

function hasBand({ points }: CurveSeries): boolean {
  return points.some((point) => bandOf(point).low !== undefined)
}

function bandOf(point: CurveSeries['points'][number] | undefined): { low?: number; high?: number } {
  if (point?.sem === undefined) return point ?? {}
  return { low: point.y - point.sem, high: point.y + point.sem }
}

/** Distances between the ticks of an axis of steps. */
const STEP_TICKS = [1, 2, 5]
  .flatMap((one) => [1, 10, 100, 1_000, 10_000, 100_000].map((ten) => one * ten))
  .sort((a, b) => a - b)

interface OptionsInput {
  series: CurveSeries[]
  over: 'step' | 'time'
  isDark: boolean
  box: HTMLElement
}

function optionsOf({ series, over, isDark, box }: OptionsInput): uPlot.Options {
  const [upper, lower] = over === 'step' ? ['+ SEM', '− SEM'] : ['upper', 'lower']
  const lines: uPlot.Series[] = []
  const bands: uPlot.Band[] = []
  const colors = COLORS[isDark ? 'dark' : 'light']
  for (const [index, one] of series.entries()) {
    const stroke = colors[index % colors.length] ?? '#888888'
    lines.push({ label: one.label, stroke, width: 2, spanGaps: true, points: { show: true, size: 6 } })
    if (!hasBand(one)) continue
    const edge = { stroke: `${stroke}55`, width: 1, points: { show: false }, spanGaps: true }
    lines.push({ label: `${one.label} ${upper}`, ...edge }, { label: `${one.label} ${lower}`, ...edge })
    // The series of x is the first.
    bands.push({ series: [lines.length - 1, lines.length], fill: `${stroke}22` })
  }
  const { color, borderTopColor } = getComputedStyle(box)
  const line = { stroke: borderTopColor, width: 1 }
  const axis: uPlot.Axis = { stroke: color, grid: line, ticks: line }
  return {
    width: Math.max(280, box.clientWidth),
    height: HEIGHT,
    scales: { x: { time: over === 'time' } },
    axes: [over === 'step' ? { ...axis, incrs: STEP_TICKS } : axis, axis],
    series: [{ label: over }, ...lines],
    bands,
    legend: { show: series.length <= 4 },
  }
}
