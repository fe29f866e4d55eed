import { showMean } from '../domain/statistics/statistics.ts'
import { escapeHtml } from './html-page.ts'
import { requireMean } from './means.ts'
import type { CurvePoint } from './report-data.ts'

const SIZE = { width: 760, height: 330 }
const PLOT = { left: 52, right: 20, top: 20, bottom: 46 }

/** The learning curve as SVG without scripts: held-out scores with their standard errors, drawn over training rollouts. */
export function renderCurve(curve: readonly CurvePoint[]): string {
  if (curve.length === 0) return ''
  for (const point of curve) requireMean(`curve point ${point.label}`, point)
  const lastStep = Math.max(1, ...curve.map(({ globalStep }) => globalStep))
  const top = ceiling(Math.max(...curve.map(({ mean, sem }) => mean + sem)))
  const x = (step: number): number => PLOT.left + 14 + (step / lastStep) * (SIZE.width - PLOT.left - PLOT.right - 28)
  const y = (rate: number): number => SIZE.height - PLOT.bottom - (rate / top) * (SIZE.height - PLOT.top - PLOT.bottom)
  const scale = { x, y }
  const evaluated = curve.filter(({ kind }) => kind === 'evaluation').toSorted(byStep)
  const rollouts = curve.filter(({ kind }) => kind === 'rollout').toSorted(byStep)
  return [
    `<svg viewBox="0 0 ${SIZE.width} ${SIZE.height}" role="img" aria-label="Learning curve: pass@1 by optimizer step">`,
    ...gridLines(top, y),
    ...stepLabels(lastStep, x),
    `<text class="axis" x="${middle()}" y="${SIZE.height - 6}" text-anchor="middle">optimizer steps</text>`,
    line(rollouts, scale, 'rollout'),
    ...rollouts.map((point) => mark(point, scale)),
    line(evaluated, scale, 'evaluation'),
    ...evaluated.map((point) => mark(point, scale)),
    ...evaluated.map((point, index) => nameOf(point, scale, evaluated[index + 1] === undefined && index > 0)),
    '</svg>',
  ].join('\n')
}

interface Scale {
  x: (step: number) => number
  y: (rate: number) => number
}

function byStep(a: CurvePoint, b: CurvePoint): number {
  return a.globalStep - b.globalStep
}

function middle(): number {
  return (PLOT.left + SIZE.width - PLOT.right) / 2
}

/** The next fifth above the highest point, so that small scores still fill the plot. */
function ceiling(highest: number): number {
  return Math.min(1, Math.max(0.2, Math.ceil(highest * 5 + 0.2) / 5))
}

function gridLines(top: number, y: Scale['y']): string[] {
  const lines = Math.round(top * 5)
  return Array.from({ length: lines + 1 }, (_, index) => {
    const rate = index / 5
    const at = round(y(rate))
    return (
      `<line class="grid" x1="${PLOT.left}" y1="${at}" x2="${SIZE.width - PLOT.right}" y2="${at}"/>` +
      `<text class="tick" x="${PLOT.left - 8}" y="${at + 4}" text-anchor="end">${rate.toFixed(1)}</text>`
    )
  })
}

function stepLabels(lastStep: number, x: Scale['x']): string[] {
  const parts = Math.min(6, lastStep)
  const steps = [...new Set(Array.from({ length: parts + 1 }, (_, index) => Math.round((lastStep * index) / parts)))]
  return steps.map(
    (step) =>
      `<text class="tick" x="${round(x(step))}" y="${SIZE.height - PLOT.bottom + 20}" text-anchor="middle">${step}</text>`,
  )
}

function line(points: readonly CurvePoint[], { x, y }: Scale, kind: CurvePoint['kind']): string {
  if (points.length < 2) return ''
  const path = points.map(({ globalStep, mean }) => `${round(x(globalStep))},${round(y(mean))}`).join(' ')
  return `<polyline class="line ${kind}" points="${path}"/>`
}

/** Error bars extend one standard error to each side; shape and colour tell the kinds apart. */
function mark(point: CurvePoint, { x, y }: Scale): string {
  const at = round(x(point.globalStep))
  const [high, low] = [round(y(point.mean + point.sem)), round(y(Math.max(0, point.mean - point.sem)))]
  const title = `${point.label}: ${showMean(point)}, n = ${point.tasks}, k = ${point.attempts}, step ${point.globalStep}`
  const centre = round(y(point.mean))
  const shape =
    point.kind === 'evaluation'
      ? `<circle cx="${at}" cy="${centre}" r="5"/>`
      : `<rect x="${at - 3}" y="${centre - 3}" width="6" height="6"/>`
  const cap = (height: number): string => `<line x1="${at - 4}" y1="${height}" x2="${at + 4}" y2="${height}"/>`
  return (
    `<g class="mark ${point.kind}"><title>${escapeHtml(title)}</title>` +
    `<line x1="${at}" y1="${high}" x2="${at}" y2="${low}"/>${cap(high)}${cap(low)}${shape}</g>`
  )
}

function nameOf(point: CurvePoint, { x, y }: Scale, isLast: boolean): string {
  // Later points usually lie above the first, so its name goes below.
  const isFirst = point.globalStep === 0
  const anchor = isLast ? 'end' : isFirst ? 'start' : 'middle'
  const above = isFirst
    ? y(Math.max(0, point.mean - point.sem)) + 17
    : Math.max(PLOT.top - 6, y(point.mean + point.sem) - 9)
  return `<text class="name" x="${round(x(point.globalStep))}" y="${round(above)}" text-anchor="${anchor}">${escapeHtml(point.label)} ${point.mean.toFixed(2)}</text>`
}

/** One decimal: enough for pixels, and the same bytes on every machine. */
function round(value: number): number {
  return Math.round(value * 10) / 10
}
