/** Lines over steps or time, with an optional band: one standard error, or an interval. */
import { useEffect, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

export interface CurveSeries {
  label: string
  points: { x: number; y: number; sem?: number; low?: number; high?: number }[]
}

const COLORS = ['#0b62a8', '#a8480b', '#2c7a3f', '#7a2c74']

export interface CurveProps {
  label: string
  series: CurveSeries[]
  /** `time`: x is in seconds since 1970. @default "step" */
  over?: 'step' | 'time'
}

export function Curve({ label, series, over = 'step' }: CurveProps) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const { current } = box
    if (current === null) return
    let plot: uPlot | null = null
    let isWanted = true
    // uPlot is in the same script but queries languages and time zone when it runs; pages without curves do not wait for that.
    void import('uplot').then(({ default: Plot }) => {
      if (isWanted) plot = new Plot(optionsOf(series, current.clientWidth, over), dataOf(series), current)
    })
    const resize = (): void => plot?.setSize({ width: current.clientWidth, height: HEIGHT })
    addEventListener('resize', resize)
    return () => {
      isWanted = false
      removeEventListener('resize', resize)
      plot?.destroy()
    }
  }, [series, over])
  return (
    <figure>
      <figcaption>{label}</figcaption>
      <div ref={box} role="img" aria-label={`${label}: ${series.map((one) => sayLast(one, over)).join('; ')}`} />
    </figure>
  )
}

const HEIGHT = 240

function sayLast({ label, points }: CurveSeries, over: 'step' | 'time'): string {
  const last = points.at(-1)
  if (last === undefined) return `${label}: nothing`
  const at = over === 'step' ? `step ${last.x}` : new Date(1000 * last.x).toISOString().slice(0, 10)
  return `${label}: last ${last.y.toPrecision(4)} at ${at}`
}

/** Three lines per series: the mean, and the edges of its band. */
function dataOf(series: CurveSeries[]): uPlot.AlignedData {
  const xs = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b)
  const lines = series.flatMap(({ points }) => {
    const at = new Map(points.map((point) => [point.x, point]))
    const edge = (side: number) =>
      xs.map((x) => {
        const point = at.get(x)
        const { low, high } = bandOf(point)
        return (side > 0 ? high : low) ?? null
      })
    return [xs.map((x) => at.get(x)?.y ?? null), edge(1), edge(-1)]
  })
  return [xs, ...lines]
}

function bandOf(point: CurveSeries['points'][number] | undefined): { low?: number; high?: number } {
  if (point?.sem === undefined) return point ?? {}
  return { low: point.y - point.sem, high: point.y + point.sem }
}

function optionsOf(series: CurveSeries[], width: number, over: 'step' | 'time'): uPlot.Options {
  const [upper, lower] = over === 'step' ? ['+ SEM', '− SEM'] : ['upper', 'lower']
  const lines = series.flatMap(({ label }, index): uPlot.Series[] => {
    const stroke = COLORS[index % COLORS.length] ?? '#000'
    const edge = { stroke: `${stroke}55`, width: 1, points: { show: false }, spanGaps: true }
    return [
      { label, stroke, width: 2, spanGaps: true, points: { show: true, size: 6 } },
      { label: `${label} ${upper}`, ...edge },
      { label: `${label} ${lower}`, ...edge },
    ]
  })
  const bands = series.map((_, index): uPlot.Band => {
    return { series: [3 * index + 2, 3 * index + 3], fill: `${COLORS[index % COLORS.length]}22` }
  })
  return {
    width: Math.max(280, width),
    height: HEIGHT,
    scales: { x: { time: over === 'time' } },
    series: [{ label: over }, ...lines],
    bands,
    legend: { show: series.length <= 4 },
  }
}
