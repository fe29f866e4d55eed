import { renderCurve } from './curve-svg.ts'
import {
  auditDifferenceTable,
  auditedTable,
  contaminationTable,
  costTable,
  dispositionTable,
  effortTable,
  flakyTable,
  officialTable,
  passAtKTable,
  verdictTable,
} from './evaluation-tables.ts'
import { escapeHtml, renderPage, renderHtmlTable } from './html-page.ts'
import type { ReportData } from './report-data.ts'
import {
  durationTable,
  ledgerTable,
  nightTable,
  pairedTable,
  refusedTable,
  scoreOf,
  scoreTable,
  signTable,
  suspectTable,
} from './tables.ts'
import { lineageTable, lostCostTable, policyTable, resolvedCostTable, runCostTable } from './cost-tables.ts'
import { suiteTable } from './suite-table.ts'
import { trainingTable } from './training-table.ts'
import { unproven } from './text-report.ts'

const TABLES = [
  scoreTable,
  nightTable,
  pairedTable,
  auditedTable,
  auditDifferenceTable,
  officialTable,
  passAtKTable,
  suiteTable,
  contaminationTable,
  trainingTable,
  ledgerTable,
  dispositionTable,
  verdictTable,
  signTable,
  suspectTable,
  effortTable,
  costTable,
  runCostTable,
  resolvedCostTable,
  lostCostTable,
  flakyTable,
  durationTable,
  lineageTable,
  policyTable,
  refusedTable,
]

/**
 * One static file without scripts or external resources; the same data give the same bytes. Works from `file://`.
 * @throws LonghaulError `Report.Incomplete`
 */
export function renderHtmlReport(data: ReportData): string {
  return renderPage({
    title: data.run,
    body: [
      head(data),
      cards(data),
      words(data),
      learningCurve(data),
      ...TABLES.map((make) => renderHtmlTable(make(data))),
      foot(data),
    ],
  })
}

function head({ run, kind, recipe }: ReportData): string {
  const what = kind === 'train' ? 'Training run' : 'Evaluation'
  return `<header>
<h1>${escapeHtml(run)}</h1>
<p class="facts">${what} · recipe <b>${escapeHtml(recipe.name)}</b> · seed ${recipe.seed} · base <code>${escapeHtml(recipe.base)}</code></p>
<p class="facts">recipe hash <code>${escapeHtml(recipe.hash)}</code></p>
</header>`
}

function cards({ evaluations }: ReportData): string {
  const items = evaluations.map((evaluation) => {
    const { mean, sem, tasks, attempts } = scoreOf(evaluation)
    const error = tasks < 2 ? 'one task: no SEM' : `± ${sem.toFixed(3)}`
    return `<div class="card">
<div class="stage">${escapeHtml(evaluation.name)}</div>
<div class="value">${mean.toFixed(3)} <small>${error}</small></div>
${gauge(mean, evaluation.interval)}
<div class="counts">pass@1 · n = ${tasks} tasks · k = ${attempts} · SEM over ${evaluation.semOver}</div>
</div>`
  })
  return `<div class="cards">\n${items.join('\n')}\n</div>`
}

/** The score on a line from 0 to 1, with its 95 % interval. */
function gauge(mean: number, interval: { low: number; high: number } | null): string {
  const at = (rate: number): string => (Math.min(1, Math.max(0, rate)) * 200).toFixed(1)
  const range =
    interval === null ? '' : `<line class="range" x1="${at(interval.low)}" y1="7" x2="${at(interval.high)}" y2="7"/>`
  return `<svg class="gauge" viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true"><rect class="track" y="3" width="200" height="8" rx="4"/><rect class="fill" y="3" width="${at(mean)}" height="8" rx="4"/>${range}</svg>`
}

function words(data: ReportData): string {
  const { mismatches } = data.ledger
  const broken =
    mismatches === 0
      ? []
      : [`<p class="words bad">The ledger does not add up (${mismatches}). Do not trust these figures.</p>`]
  const decided = data.promotion === undefined ? [] : [data.promotion]
  return [
    ...broken,
    ...[...decided, ...unproven(data)].map((sentence) => `<p class="words">${escapeHtml(sentence)}</p>`),
  ].join('\n')
}

function learningCurve({ curve }: ReportData): string {
  if (curve.length < 2) return ''
  return `<h2>Learning curve</h2>
<figure>
${renderCurve(curve)}
<figcaption class="legend"><b class="e">●</b> pass@1 on held-out tasks &nbsp; <b class="r">■</b> share resolved among training rollouts (other tasks each time) &nbsp; bars: one standard error, clustered by task</figcaption>
</figure>`
}

function foot({ versions }: ReportData): string {
  return `<p class="note">Made by Longhaul ${escapeHtml(versions.longhaul)} on Node ${escapeHtml(versions.node)} from stored records; the same report can be made again at any time. Every score is a mean over tasks; its interval says how far another draw of tasks and attempts would move it, not how it would differ on other kinds of tasks.</p>`
}
