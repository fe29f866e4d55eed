/** Tables of a report, with plain text cells; `text-report` aligns them, `html-report` escapes them. */
import { showMean } from '../domain/statistics/statistics.ts'
import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import { HACK_SIGNS } from '../contracts/hack-signs.ts'
import { judgeGain, formatGain, type ReportedMean, requireMean, showInterval, showSigned } from './means.ts'
import type { ReportData } from './report-data.ts'

export interface Table {
  title: string
  /** Numeric columns are right-aligned. */
  columns: { name: string; numeric: boolean }[]
  rows: string[][]
  /** Lines below the table. */
  notes: string[]
}

export const text = (name: string) => ({ name, numeric: false })
export const number = (name: string) => ({ name, numeric: true })

export function scoreOf({ name, score }: EvaluationRecord): ReportedMean {
  return requireMean(name, { mean: score.passAt1, sem: score.sem, tasks: score.tasks, attempts: score.attempts })
}

export function scoreTable({ evaluations }: ReportData): Table {
  const single = evaluations.some(({ semOver }) => semOver === 'tasks')
  const limits = new Set(evaluations.map(showLimits))
  const areLimitsMixed = limits.size > 1
  return {
    title: 'Scores on held-out tasks',
    columns: [
      text('stage'),
      text('policy'),
      number('pass@1 ± SEM'),
      number('95 % interval'),
      number('n'),
      number('k'),
      text('SEM over'),
      number('infra'),
      number('not graded'),
      number('hacks'),
      ...(areLimitsMixed ? [text('limits')] : []),
    ],
    rows: evaluations.map((evaluation) => {
      const score = scoreOf(evaluation)
      const { interval, infra, couldNotGrade, semOver, suspectedHacks } = evaluation
      return [
        evaluation.name,
        evaluation.score.policy,
        showMean(score),
        showInterval(interval),
        String(score.tasks),
        String(score.attempts),
        semOver,
        String(infra),
        String(couldNotGrade),
        String(suspectedHacks),
        ...(areLimitsMixed ? [showLimits(evaluation)] : []),
      ]
    }),
    notes: [
      ...(areLimitsMixed
        ? ['Limits of an attempt differ: the gap between two rows may come from turns or tokens, not from the policy.']
        : [...limits].filter((shown) => shown !== UNKNOWN).map((shown) => `Limits of each attempt: ${shown}.`)),
      'n = tasks, k = attempts at each. Episodes lost to infrastructure or without a grade count in no mean. Hacks are suspected ones: scores count their official verdict, rewards do not. The interval resamples repositories, tasks and attempts.',
      single
        ? 'SEM over tasks: with one attempt a task (or unequal numbers) there are no runs to compare; it says how far another draw of tasks would move the score.'
        : 'SEM over runs leaves out which tasks were drawn; the interval covers that too.',
    ],
  }
}

const AGAINST = { last: 'the last night', baseline: 'the baseline' } as const

/** Comparisons with other runs; the last column states the rule with its numbers. */
export function nightTable({ nights = [] }: ReportData): Table {
  return {
    title: 'Against other evaluations',
    columns: [
      text('evaluation'),
      text('against'),
      text('which'),
      text('verdict'),
      number('common tasks'),
      text('because'),
    ],
    rows: nights.map(({ name, against, before, outcome, tasks, statement }) => [
      name,
      AGAINST[against],
      before === null ? UNKNOWN : `${before.name} of ${before.run} (${before.policy})`,
      outcome.replaceAll('-', ' '),
      String(tasks.common),
      statement,
    ]),
    notes: ['Over the tasks of both sides whose rows are equal. Bounds decide, never the mean: docs/statistics.md.'],
  }
}

const UNKNOWN = '–'

/** `40 turns, 65536 tokens`; a dash if no episode stored its spec. */
export function showLimits({ conditions }: EvaluationRecord): string {
  if (conditions === null) return UNKNOWN
  return `${conditions.limits.maxTurns} turns, ${conditions.limits.contextTokens} tokens`
}

export function pairedTable({ paired, evaluations }: ReportData): Table {
  const limitsOf = new Map(evaluations.map((evaluation) => [evaluation.name, showLimits(evaluation)]))
  return {
    title: 'Differences on the same tasks',
    columns: [
      text('difference'),
      number('pass@1 ± SEM'),
      number('95 % interval'),
      number('n'),
      number('better'),
      number('worse'),
      text('that is'),
    ],
    rows: paired.map((pair) => [
      `${pair.after} − ${pair.before}`,
      pair.tasks < 2 ? showSigned(pair.mean) : `${showSigned(pair.mean)} ± ${pair.sem.toFixed(3)}`,
      showInterval(pair.interval, (value) => showSigned(value)),
      String(pair.tasks),
      String(pair.better),
      String(pair.worse),
      formatGain(judgeGain(pair)),
    ]),
    notes: [
      ...(paired.some(({ unpaired }) => unpaired > 0) ? ['Tasks that only one side could score are left out.'] : []),
      ...paired
        .filter(({ before, after }) => limitsOf.get(before) !== limitsOf.get(after))
        .map(
          ({ before, after }) =>
            `${after} − ${before} compares other limits too: ${limitsOf.get(after)} against ${limitsOf.get(before)}.`,
        ),
    ],
  }
}

export function ledgerTable({ ledger: { totals, mismatches } }: ReportData): Table {
  const reasons = (prefix: string, counts: Partial<Record<string, number>>): string[][] =>
    Object.entries(counts)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([reason, count]) => [`${prefix}: ${reason}`, String(count ?? 0)])
  return {
    title: 'Ledger: every episode exactly once',
    columns: [text('fate'), number('episodes')],
    rows: [
      ['trained', String(totals.trained)],
      ['evaluated', String(totals.evaluated)],
      ...reasons('dropped', totals.dropped),
      ...reasons('excluded', totals.excluded),
      ['all', String(totals.episodes)],
    ],
    notes: [judgeLedger(totals.episodes, mismatches)],
  }
}

function judgeLedger(episodes: number, mismatches: number): string {
  if (mismatches > 0) {
    return `DOES NOT ADD UP: ${mismatches} mismatch${mismatches === 1 ? '' : 'es'}; see longhaul ledger verify.`
  }
  return episodes === 0
    ? 'No iteration has ended, so there is no ledger to derive again.'
    : 'Derived again from the records: it adds up.'
}

/** Every sign that an episode of the run showed. */
export function signTable({ flagged: { signs } }: ReportData): Table {
  return {
    title: 'Signs of other means than a repair',
    columns: [text('sign'), text('what was seen'), text('reward'), number('episodes'), number('resolved')],
    rows: signs.map(({ sign, episodes, resolved }) => [
      sign,
      HACK_SIGNS[sign].says,
      HACK_SIGNS[sign].voidsReward ? 'taken: suspected hack' : 'kept',
      String(episodes),
      String(resolved),
    ]),
    notes: [
      '"Resolved" is the official verdict, which no sign changes. Signs are tripwires, not proof: read the episode before you judge it.',
    ],
  }
}

export function suspectTable({ flagged: { suspected, total } }: ReportData): Table {
  return {
    title: 'Suspected hacks',
    columns: [text('episode'), text('disposition'), text('verdict'), text('signs')],
    rows: suspected.map(({ episode, disposition, verdict, signs }) => [
      episode,
      `${disposition}, suspected-hack`,
      verdict ?? '–',
      signs.join(', '),
    ]),
    notes: total > suspected.length ? [`The first ${suspected.length} of ${total}.`] : [],
  }
}

export function durationTable({ durations }: ReportData): Table {
  return {
    title: 'Durations',
    columns: [text('phase'), number('time')],
    rows: Object.entries(durations).map(([phase, seconds]) => [phase, showDuration(seconds)]),
    notes: [],
  }
}

export function refusedTable({ refused }: ReportData): Table {
  return {
    title: 'Tasks left out',
    columns: [text('task'), text('reason')],
    rows: refused.map(({ taskId, reason }) => [taskId, reason]),
    notes: [],
  }
}

/** `48.2 s`, `12 min 05 s`, `3 h 20 min`. */
export function showDuration(seconds: number): string {
  if (seconds < 60) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, '0')} min`
}
