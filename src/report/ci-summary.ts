/** Renders what a CI job shows: a Markdown page and a few annotations. All untrusted text is escaped here. */
import { showMean } from '../domain/statistics/statistics.ts'
import type { EvaluationDocument } from '../contracts/evaluations.types.ts'
import type { ComparedTask } from '../domain/statistics/comparison.ts'
import { commandMessage, commandProperty, markdownText } from '../domain/hostile-text.ts'

/** Result of a requested rule, as text with its numbers; `unknown` if the data do not suffice. */
export interface RuleVerdict {
  state: 'passed' | 'failed' | 'unknown'
  text: string
  /** It passes because it is not strict, although the data neither prove nor exclude what it forbids. */
  isOpen?: boolean
}

export interface CiSummary {
  workflowId: string
  /** Page of the run in the Temporal UI. */
  ui: string | null
  exitCode: number
  /** The exit code in words. */
  meaning: string
  verdicts: readonly RuleVerdict[]
  /** Null if no record could be read: the run failed, the command detached from it, or no worker answered. */
  document: EvaluationDocument | null
  /** Tasks that changed against the baseline, largest change first; null without a baseline. */
  flips: readonly ComparedTask[] | null
}

/** GitHub shows a megabyte for all steps together and silently drops what is longer. */
const MAX_BYTES = 256 * 1024
/** Rows of each list on the page; the JUnit file has all tasks. */
const MAX_ROWS = 50
/** GitHub shows ten annotations per step and drops the others. */
const MAX_ANNOTATIONS = 8

const MARKS = { passed: '✅', failed: '❌', unknown: '⚠️' } as const

export function renderCiSummary(summary: CiSummary): string {
  const { workflowId, ui, exitCode, meaning, verdicts, document, flips } = summary
  const page = [
    `## ${exitCode === 0 ? '✅' : '❌'} Longhaul: ${meaning} (exit ${exitCode})`,
    '',
    `Run ${linked(workflowId, ui)}`,
    '',
    ...verdicts.map(
      ({ state, text, isOpen }) => `- ${MARKS[isOpen === true ? 'unknown' : state]} ${markdownText(text, 600)}`,
    ),
    ...nightLines(document),
    ...(document === null ? [] : describeScore(document)),
    ...(flips === null ? [] : flipRows(flips)),
    ...(document === null ? [] : openRows(document)),
    '',
  ].join('\n')
  return limited(page)
}

const NIGHT_MARKS = {
  regressed: MARKS.failed,
  improved: MARKS.passed,
  'not-worse': MARKS.passed,
  'cannot-exclude': MARKS.unknown,
  'not-compared': MARKS.unknown,
} as const

/** The run's own comparisons with other evaluations: information only, unless a rule of this job uses them. */
function nightLines(document: EvaluationDocument | null): string[] {
  return (document?.verdicts ?? []).map(
    ({ against, outcome, statement }) =>
      `- ${NIGHT_MARKS[outcome]} against the ${against === 'last' ? 'last night' : 'baseline'}: ${markdownText(statement, 600)}`,
  )
}

/** Links only http and https addresses; shows others as text. */
function linked(text: string, address: string | null): string {
  const shown = markdownText(text, 200)
  if (address === null || !/^https?:\/\/[A-Za-z0-9.:[\]_-]+(\/[A-Za-z0-9%._~/-]*)?$/.test(address)) return shown
  return `[${shown}](${address})`
}

function describeScore({ evaluation, refused }: EvaluationDocument): string[] {
  const { score, interval, attempts, infra, couldNotGrade, suspectedHacks, tasks } = evaluation
  const lost = tasks.reduce((sum, task) => sum + task.lost, 0)
  const bounds = interval === null ? 'unknown' : `${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}`
  const rows: [string, string][] = [
    ['policy', markdownText(score.policy)],
    ['pass@1 ± SEM', showMean({ ...score, mean: score.passAt1 })],
    ['95 % interval', bounds],
    ['tasks × attempts', `${tasks.length} × ${attempts}`],
    [
      'attempts without an outcome',
      `${lost} (episodes lost to infrastructure: ${infra}, could not grade: ${couldNotGrade})`,
    ],
    ['suspected hacks', String(suspectedHacks)],
    ['tasks refused by their gate', String(refused.length)],
  ]
  return ['', '| | |', '|---|---|', ...rows.map(([name, value]) => `| ${name} | ${value} |`)]
}

function flipRows(flips: readonly ComparedTask[]): string[] {
  if (flips.length === 0) return ['', 'No task changed against the baseline.']
  const share = ({ resolved, attempts }: { resolved: number; attempts: number }): string => `${resolved} of ${attempts}`
  const rows = flips.map(
    ({ taskId, before, after, difference }) =>
      `| ${markdownText(taskId)} | ${share(before)} | ${share(after)} | ${difference > 0 ? 'better' : '**worse**'} |`,
  )
  return ['', '### Tasks that changed', '', '| task | before | after | |', '|---|---|---|---|', ...few(rows)]
}

function openRows({ evaluation, attempts }: EvaluationDocument): string[] {
  const byTask = Map.groupBy(attempts, ({ taskId }) => taskId)
  const rows = evaluation.tasks
    .filter(({ outcomes }) => outcomes.length === 0 || outcomes.includes(0))
    .map(({ taskId, outcomes }) => {
      const resolved = outcomes.filter((outcome) => outcome === 1).length
      const reasons = (byTask.get(taskId) ?? []).flatMap(({ verdict, reason, failure }) =>
        verdict === 'resolved' ? [] : [reason ?? failure ?? 'not graded'],
      )
      return `| ${markdownText(taskId)} | ${resolved} of ${outcomes.length} | ${markdownText([...new Set(reasons)].join(', '))} |`
    })
  if (rows.length === 0) return []
  return ['', '### Tasks that are not resolved', '', '| task | resolved | why |', '|---|---|---|', ...few(rows)]
}

function few(rows: readonly string[]): string[] {
  const more = rows.length - MAX_ROWS
  return more > 0 ? [...rows.slice(0, MAX_ROWS), '', `${more} more in the JUnit file.`] : [...rows]
}

function limited(page: string): string {
  const bytes = Buffer.byteLength(page)
  if (bytes <= MAX_BYTES) return page
  const kept = Buffer.from(page)
    .subarray(0, MAX_BYTES - 100)
    .toString('utf8')
  // Cuts between lines: half an entity would be visible.
  return `${kept.slice(0, kept.lastIndexOf('\n'))}\n\nThe page is cut here; the JUnit file has all tasks.\n`
}

/** Workflow commands for GitHub Actions, one per line, at most eight: rules that did not pass, then tasks that got worse. */
export function renderAnnotations({ verdicts, flips, exitCode, meaning }: CiSummary): string[] {
  const failed = verdicts.filter(({ state }) => state !== 'passed').map(({ text }) => text)
  const errors = failed.length === 0 && exitCode !== 0 ? [meaning] : failed
  const worse = (flips ?? []).filter(({ difference }) => difference < 0)
  const all = [
    ...errors.map((text) => command('error', `Longhaul: exit ${exitCode}`, text)),
    ...worse.map(({ taskId, before, after }) =>
      command(
        'warning',
        `worse than the baseline: ${taskId}`,
        `resolved ${after.resolved} of ${after.attempts} attempts, before ${before.resolved} of ${before.attempts}`,
      ),
    ),
  ]
  if (all.length <= MAX_ANNOTATIONS) return all
  const shown = all.slice(0, MAX_ANNOTATIONS - 1)
  return [
    ...shown,
    command('notice', 'Longhaul', `${all.length - shown.length} more in the summary and in the JUnit file`),
  ]
}

function command(kind: 'error' | 'warning' | 'notice', title: string, message: string): string {
  return `::${kind} title=${commandProperty(title)}::${commandMessage(message)}`
}
