/** Tables of a comparison, with plain text cells. */
import { showControls } from '../domain/hostile-text.ts'
import type { Comparison, Difference } from '../domain/statistics/comparison.ts'
import { type PassAt1, showMean } from '../domain/statistics/statistics.ts'
import { requireMean, showInterval, showSigned } from './means.ts'
import { number, type Table, text } from './tables.ts'
import { escapeHtml, renderPage, renderHtmlTable } from './html-page.ts'
import { renderTable } from './text-report.ts'
import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import type { Comparability } from '../domain/statistics/comparability.ts'

function sideTable({ before, after, comparison }: ComparisonData): Table {
  const row = (side: string, evaluation: ComparedEvaluation, score: PassAt1): string[] => {
    const { mean, sem, semOver, tasks, attempts } = score
    const shown = requireMean(nameOf(evaluation), { mean, sem, tasks, attempts: Math.ceil(attempts / tasks) })
    return [
      side,
      nameOf(evaluation),
      evaluation.score.policy,
      showMean(shown),
      semOver,
      String(tasks),
      String(attempts),
    ]
  }
  if (comparison.tasks === 0) return { title: 'Scores on the shared tasks', columns: [], rows: [], notes: [] }
  return {
    title: 'Scores on the shared tasks',
    columns: [
      text('side'),
      text('evaluation'),
      text('policy'),
      number('pass@1 ± SEM'),
      text('SEM over'),
      number('n'),
      number('attempts'),
    ],
    rows: [
      row('before', before, comparison.before),
      row('after', after, comparison.after),
      ...(comparison.audited === null
        ? []
        : [
            row('before, audited', before, comparison.audited.before),
            row('after, audited', after, comparison.audited.after),
          ]),
    ],
    notes:
      comparison.before.semOver === 'tasks' || comparison.after.semOver === 'tasks'
        ? ['SEM over tasks: with one attempt a task (or unequal numbers) there are no runs to compare.']
        : [],
  }
}

export function changeTable({ comparison }: Pick<ComparisonData, 'comparison'>): Table {
  const { difference, better, worse, same, mcnemar, level, draws, seed } = comparison
  return {
    title: 'After − before, task by task',
    columns: [
      number('pass@1 ± SEM'),
      number(`${percent(level)} interval`),
      number('better'),
      number('worse'),
      number('same'),
      ...(mcnemar === null ? [] : [number('McNemar exact p'), number('mid-p')]),
    ],
    rows:
      comparison.tasks === 0
        ? []
        : [
            [
              showDifference(difference),
              showInterval(difference.interval, (value) => showSigned(value)),
              ...[better, worse, same].map(String),
              ...(mcnemar === null ? [] : [mcnemar.exact.toFixed(4), mcnemar.midP.toFixed(4)]),
            ],
          ],
    notes: [
      `Paired bootstrap over repositories and tasks (${draws} draws, seed ${seed}), widened to what small samples allow; SEM clustered by task.`,
    ],
  }
}

function effortChangeTable({ comparison, after }: ComparisonData): Table {
  const { turns, sampledTokens, promptTokens, wallSeconds, cost } = comparison.effort
  const rows: [string, Difference | null, number][] = [
    ['turns', turns, 1],
    ['sampled tokens', sampledTokens, 1],
    ['tokens read', promptTokens, 1],
    ['wall seconds', wallSeconds, 1],
    [`cost, ${after.cost?.prices.currency ?? ''}`, cost, 4],
  ]
  return {
    title: 'Effort of an attempt, after − before',
    columns: [text('what'), number('difference ± SEM'), number(`${percent(comparison.level)} interval`), number('n')],
    rows: rows.flatMap(([what, difference, digits]) =>
      difference === null
        ? []
        : [
            [
              what,
              showDifference(difference, digits),
              showInterval(difference.interval, (value) => showSigned(value, digits)),
              String(difference.tasks),
            ],
          ],
    ),
    notes: ['Graded attempts only; Student’s t over tasks.'],
  }
}

/** `--json` lists all of them. */
const MOST_FLIPS = 30

export function flipTable({ comparison: { flips } }: Pick<ComparisonData, 'comparison'>): Table {
  const share = ({ resolved, attempts }: { resolved: number; attempts: number }): string => `${resolved} of ${attempts}`
  const more = flips.length - MOST_FLIPS
  return {
    title: 'Tasks that changed',
    columns: [text('task'), number('before'), number('after'), text('change')],
    rows: flips
      .slice(0, MOST_FLIPS)
      .map((flip) => [flip.taskId, share(flip.before), share(flip.after), flip.difference > 0 ? 'better' : 'worse']),
    notes: more > 0 ? [`${more} more with --json.`] : [],
  }
}

/** Lines below the tables: tasks left out, other explanations of the difference, statistical power. */
function saidBelow({ comparison, comparability }: ComparisonData): string[] {
  const { onlyBefore, onlyAfter, unscored, audited } = comparison
  const left = onlyBefore.length + onlyAfter.length + unscored.length
  const paid = audited?.difference ?? null
  return [
    ...(paid === null || paid.tasks === 0
      ? []
      : [
          `audited: after − before ${showDifference(paid)}, interval ${showInterval(paid.interval, (value) => showSigned(value))}`,
        ]),
    ...(left === 0
      ? []
      : [
          `left out: ${onlyBefore.length} tasks only before, ${onlyAfter.length} only after, ${unscored.length} that one side could not score`,
        ]),
    ...comparability.warnings.map((warning) => `not alike: ${warning}`),
    ...formatPower(comparison),
  ]
}

function formatPower({ power, level, tasks, before, difference }: Comparison): string[] {
  if (power === null) return []
  const attempts = Math.round(before.attempts / Math.max(1, before.tasks))
  if (power.smallest === null) {
    return [`power: ${tasks} tasks × ${attempts} with one difference leave no spread to tell which one they would show`]
  }
  const smallest = `power: ${tasks} tasks × ${attempts} show a difference of ${power.smallest.toFixed(3)} with ${percent(power.power)} chance at ${percent(level)}`
  if (power.tasks === null) return [smallest]
  const settle = `to settle a true difference of ${showSigned(difference.mean)}`
  if (power.tasks <= tasks) {
    return [smallest, `${settle}: so many tasks and attempts suffice, with ${percent(power.power)} chance`]
  }
  const byAttempts =
    power.attempts === null
      ? 'no number of attempts suffices'
      : `${power.attemptsAtLeast ? 'at least ' : ''}${power.attempts} ${power.attempts === 1 ? 'attempt' : 'attempts'} a task`
  return [smallest, `${settle}: ${byAttempts}, or ${power.tasks} tasks with the current attempts`]
}

function showDifference({ mean, sem, tasks }: Difference, digits = 3): string {
  return tasks < 2
    ? `${showSigned(mean, digits)} (one task: no SEM)`
    : `${showSigned(mean, digits)} ± ${sem.toFixed(digits)}`
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))} %`
}

function tablesOf(data: ComparisonData): Table[] {
  return [sideTable, changeTable, effortChangeTable, flipTable]
    .map((make) => make(data))
    .filter(({ rows }) => rows.length > 0)
}

export function renderTextComparison(data: ComparisonData): string {
  return [...tablesOf(data).map(renderTable), saidBelow(data).join('\n'), data.verdicts.join('\n')]
    .filter((part) => part !== '')
    .join('\n\n')
}

/** Markdown for a job summary: tables, notes, verdict. */
export function renderMarkdownComparison(data: ComparisonData): string {
  const words = [...saidBelow(data), ...data.verdicts.map((verdict) => `**${verdict}**`)]
  return `${[...tablesOf(data).map(renderMarkdownTable), ...words].join('\n\n')}\n`
}

/** One static file without scripts or external resources; the same data give the same bytes. */
export function renderHtmlComparison(data: ComparisonData): string {
  const title = `${nameOf(data.after)} against ${nameOf(data.before)}`
  const words = [...data.verdicts, ...saidBelow(data)].map((line) => `<p class="words">${escapeHtml(line)}</p>`)
  return renderPage({
    title,
    body: [`<header><h1>${escapeHtml(title)}</h1></header>`, ...words, ...tablesOf(data).map(renderHtmlTable)],
  })
}

type ComparedEvaluation = Pick<EvaluationRecord, 'run' | 'name' | 'suite' | 'score' | 'cost'>

/** Everything that a comparison shows. */
export interface ComparisonData {
  before: ComparedEvaluation
  after: ComparedEvaluation
  comparison: Comparison
  comparability: Comparability
  /** Results of the caller's rules, one line each; they also determine the exit code. */
  verdicts: string[]
}

/** `base of demo-2026-11-20-a`. */
function nameOf({ run, name }: ComparedEvaluation): string {
  return `${name} of ${run}`
}

/** A heading, the table and its notes. Cells are hostile text, which must not start markup or end the cell. */
function renderMarkdownTable({ title, columns, rows, notes }: Table): string {
  const line = (cells: readonly string[]): string => `| ${cells.map(escapeMarkdown).join(' | ')} |`
  return [
    `### ${escapeMarkdown(title)}`,
    '',
    line(columns.map(({ name }) => name)),
    `|${columns.map(({ numeric }) => (numeric ? '---:' : '---')).join('|')}|`,
    ...rows.map(line),
    ...notes.flatMap((note) => ['', escapeMarkdown(note)]),
  ].join('\n')
}

function escapeMarkdown(text: string): string {
  return showControls(text)
    .replaceAll(/[\t\n]/g, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/[\\`*_[\]|~]/g, (character) => `\\${character}`)
}
