/** Tables behind the scores: endings, verdicts, lost and audited attempts, several attempts, effort, cost, flaky tasks. */
import { AUDIT_REASONS } from '../contracts/audit.types.ts'
import type { AuditDifference, EvaluationRecord, StoredMean } from '../contracts/evaluations.types.ts'
import { flakyTasks, showMean } from '../domain/statistics/statistics.ts'
import { requireMean, showInterval, showTaskMean } from './means.ts'
import type { ReportData } from './report-data.ts'
import { type Table, number, showDuration, text } from './tables.ts'
import { type ContaminationSplit, type DatedScore, splitByCutoff } from '../domain/statistics/contamination.ts'

/** How the episodes of each evaluation ended. */
export function dispositionTable({ evaluations }: ReportData): Table {
  const names = [...new Set(evaluations.flatMap(({ dispositions }) => Object.keys(dispositions)))].toSorted()
  return {
    title: 'How episodes ended',
    columns: [text('stage'), ...names.map(number), number('format errors')],
    rows: evaluations.map(({ name, dispositions, totals }) => {
      const counts: Partial<Record<string, number>> = dispositions
      return [
        name,
        ...names.map((disposition) => String(counts[disposition] ?? 0)),
        `${totals.formatErrorTurns} of ${totals.turns} turns`,
      ]
    }),
    notes: ['Format errors: turns without exactly one command.'],
  }
}

/** Verdicts of the same episodes. */
export function verdictTable({ evaluations }: ReportData): Table {
  const reasons = [...new Set(evaluations.flatMap(({ reasons }) => Object.keys(reasons)))].toSorted()
  return {
    title: 'What grading found',
    columns: [
      text('stage'),
      ...['resolved', 'unresolved', 'could not grade', 'infra', 'graded by the gate'].map(number),
      ...reasons.map((reason) => number(`reason: ${reason}`)),
    ],
    rows: evaluations.map((evaluation) => {
      const { name, verdicts, couldNotGrade, infra, gradedByGate } = evaluation
      return [
        name,
        ...[verdicts.resolved ?? 0, verdicts.unresolved ?? 0, couldNotGrade, infra, gradedByGate].map(String),
        ...reasons.map((reason) => String(evaluation.reasons[reason] ?? 0)),
      ]
    }),
    notes: [
      'Episodes, replaced ones too. "Graded by the gate": an empty or missing patch takes the result that the gate found for an empty patch, without a container.',
    ],
  }
}

/** Scores over every requested attempt. */
export function officialTable({ evaluations }: ReportData): Table {
  return {
    title: 'Scores as official harnesses count',
    columns: [
      text('stage'),
      number('pass@1 ± SEM'),
      number('95 % interval'),
      number('n'),
      number('k'),
      number('lost attempts'),
      number('replaced'),
    ],
    rows: evaluations.map(({ name, official, tasks }) => {
      const { passAt1: mean, sem, interval } = official
      const score = requireMean(`${name}, official`, { mean, sem, tasks: official.tasks, attempts: official.attempts })
      const lost = tasks.reduce((sum, { lost }) => sum + lost, 0)
      const replaced = tasks.reduce((sum, { replaced = 0 }) => sum + replaced, 0)
      return [
        name,
        showMean(score),
        showInterval(interval),
        String(score.tasks),
        String(score.attempts),
        `${lost} of ${score.tasks * score.attempts}`,
        String(replaced),
      ]
    }),
    notes: [
      'Every attempt that was asked for; one without a verdict counts as unresolved, also where another one replaced it.',
    ],
  }
}

/** Scores that count only paid attempts. No rows for evaluations of earlier versions. */
export function auditedTable({ evaluations }: ReportData): Table {
  return {
    title: 'Audited scores',
    columns: [
      text('stage'),
      number('audited pass@1 ± SEM'),
      number('95 % interval'),
      number('n'),
      number('official pass@1'),
      number('resolved'),
      number('paid'),
      number('paid without an audit'),
      ...UNPAID.map(([, name]) => number(name)),
    ],
    rows: evaluations.flatMap(({ name, score, audited }) => {
      if (audited === undefined) return []
      const { passAt1: mean, sem, tasks, attempts, interval, resolved, paid, unaudited, differences } = audited
      const count = (because: AuditDifference['because']): string =>
        String(differences.filter((one) => one.because === because).length)
      return [
        [
          name,
          showMean(requireMean(`${name}, audited`, { mean, sem, tasks, attempts })),
          showInterval(interval),
          String(tasks),
          score.passAt1.toFixed(3),
          ...[resolved, paid, unaudited].map(String),
          ...UNPAID.map(([because]) => count(because)),
        ],
      ]
    }),
    notes: [
      'Audited: resolved, no sign of a hack, and a second run under another user agrees. Only that is paid. Official is what upstream’s harness would say of the same attempts.',
    ],
  }
}

const UNPAID = [
  ['audit-void', 'audit disagrees'],
  ['suspected-hack', 'suspected hack'],
  ['unaudited', 'no audit'],
] as const satisfies readonly (readonly [AuditDifference['because'], string])[]

/** `report.json` lists all of them. */
const MOST_DIFFERENCES = 50

export function auditDifferenceTable({ evaluations }: ReportData): Table {
  const found = evaluations.flatMap(({ name, audited }) =>
    (audited?.differences ?? []).map(({ taskId, because, reasons, detail }) => [
      name,
      taskId,
      because,
      reasons.map((reason) => AUDIT_REASONS[reason]).join('; '),
      detail ?? '',
    ]),
  )
  const more = found.length - MOST_DIFFERENCES
  return {
    title: 'Resolved officially and not paid',
    columns: [text('stage'), text('task'), text('because'), text('the audit says'), text('where')],
    rows: found.slice(0, MOST_DIFFERENCES),
    notes: more > 0 ? [`${more} more in report.json.`] : [],
  }
}

export function passAtKTable({ evaluations }: ReportData): Table {
  const several = evaluations.filter(({ attempts }) => attempts > 1)
  return {
    title: 'Several attempts',
    columns: [text('stage'), number('k'), number('pass@k ± SEM'), number('pass^k ± SEM'), number('n')],
    rows: several.flatMap(({ name, passAtK }) =>
      passAtK.map(({ k, any, all }) => [
        name,
        String(k),
        showOrDash(`pass@${k} of ${name}`, any),
        showOrDash(`pass^${k} of ${name}`, all),
        String(any?.tasks ?? 0),
      ]),
    ),
    notes: [
      'pass@k: chance that one of k attempts resolves, pass^k: that all do; both unbiased, averaged over tasks, SEM over tasks. – where a task has fewer than k graded attempts.',
    ],
  }
}

function showOrDash(what: string, value: StoredMean | null): string {
  return value === null ? '–' : showTaskMean(what, value)
}

export function effortTable({ evaluations }: ReportData): Table {
  return {
    title: 'Effort of an attempt',
    columns: [
      text('stage'),
      number('turns ± SEM'),
      number('sampled tokens ± SEM'),
      number('tokens read ± SEM'),
      number('of them cached'),
      number('wall seconds ± SEM'),
      number('tokens per resolved'),
      number('episodes’ time'),
      number('grading time'),
    ],
    rows: evaluations.map((evaluation) => {
      const { name, turns, sampledTokens, promptTokens, cachedTokens, wallSeconds, totals } = evaluation
      const resolved = countResolved(evaluation)
      return [
        name,
        showTaskMean(`turns of ${name}`, turns, 1),
        sampledTokens === null ? '–' : showTaskMean(`tokens of ${name}`, sampledTokens, 0),
        promptTokens === undefined ? '–' : showTaskMean(`tokens read of ${name}`, promptTokens, 0),
        cachedTokens === undefined ? '–' : showTaskMean(`cached tokens of ${name}`, cachedTokens, 0),
        wallSeconds === null ? '–' : showTaskMean(`seconds of ${name}`, wallSeconds, 1),
        resolved === 0 || sampledTokens === null ? '–' : `${totals.sampledTokens} / ${resolved}`,
        showDuration(totals.wallSeconds),
        showDuration(totals.gradeSeconds),
      ]
    }),
    notes: [
      'Graded attempts only; means over tasks. Wall time runs from the first prompt to the last observation, waits included. Tokens read: over all samples of an attempt, each of which reads the whole conversation. Tokens per resolved: all sampled tokens over resolved attempts. – where the server reported no counts.',
    ],
  }
}

/** No rows if the recipe has no prices. */
export function costTable({ evaluations }: ReportData): Table {
  const priced = evaluations.flatMap((evaluation) =>
    evaluation.cost === undefined ? [] : [{ evaluation, cost: evaluation.cost }],
  )
  return {
    title: 'Cost',
    columns: [
      text('stage'),
      number('an attempt ± SEM'),
      number('graded attempts'),
      number('lost attempts'),
      number('per resolved'),
      number('not counted'),
      text('currency'),
    ],
    rows: priced.map(({ evaluation, cost }) => {
      const { name } = evaluation
      const { attempt, graded, lost, unknown, prices } = cost
      const resolved = countResolved(evaluation)
      return [
        name,
        attempt === null ? '–' : showTaskMean(`cost of ${name}`, attempt, 4),
        graded.toFixed(4),
        lost.toFixed(4),
        resolved === 0 ? '–' : `${(graded + lost).toFixed(4)} / ${resolved}`,
        String(unknown),
        prices.currency,
      ]
    }),
    notes: [
      'By the prices of the recipe: tokens as they were counted, machines for as long as any attempt ran, shared out by the attempts’ time. Mean over tasks of graded attempts. Per resolved: everything paid over resolved attempts. Not counted: attempts without token counts, which the sums leave out. Samples that a crash lost, gates and grading are not in it.',
    ],
  }
}

function countResolved({ tasks }: EvaluationRecord): number {
  return tasks.flatMap(({ outcomes }) => outcomes).filter((outcome) => outcome === 1).length
}

/** `report.json` lists all of them. */
const MOST_FLAKY = 20

export function flakyTable({ evaluations }: ReportData): Table {
  const flaky = evaluations.flatMap((evaluation) => {
    const found = flakyTasks(evaluation.tasks)
    const more = found.length - MOST_FLAKY
    return [
      ...found
        .slice(0, MOST_FLAKY)
        .map((task) => [evaluation.name, task.taskId, `${task.resolved} of ${task.attempts}`]),
      ...(more > 0 ? [[evaluation.name, `and ${more} more`, '']] : []),
    ]
  })
  return {
    title: 'Tasks that the policy both resolved and did not',
    columns: [text('stage'), text('task'), number('resolved')],
    rows: flaky,
    notes: ['The policy varies on these tasks. The gate refuses tasks whose grading itself varies, and lists them.'],
  }
}

// Scores by the date of tasks: those that the model may have read in training, and those that it cannot have read.

/** Shows both scores: a policy that does better on tasks that it may have read is suspect. */
export function contaminationTable({ evaluations, cutoff }: Pick<ReportData, 'evaluations' | 'cutoff'>): Table {
  const rows = cutoff === null ? [] : evaluations.map((evaluation) => contaminationRow(evaluation, cutoff))
  return {
    title: 'Tasks before and after the model’s training data ends',
    columns: [text('stage'), ...['before', 'n', 'after', 'n', 'no date', 'n'].map(number), text('that is')],
    rows,
    notes:
      cutoff === null
        ? []
        : [
            `pass@1 ± SEM over tasks (95 % interval); the data ends ${cutoff}. A flag, not a proof: older tasks may just be easier. Tasks without a date are on no side.`,
          ],
  }
}

/** One evaluation's split, as a line at the end of a command. */
export function contaminationLine(evaluation: EvaluationRecord, cutoff: string): string {
  const split = splitByCutoff({ tasks: evaluation.tasks, cutoff })
  const side = (name: string, score: DatedScore | null): string[] =>
    score === null ? [] : [`${name} ${show(evaluation, score)} on ${score.tasks}`]
  const sides = [
    ...side(`before ${cutoff}`, split.before),
    ...side('since', split.after),
    ...side('without a date', split.unknown),
  ]
  return `contamination: ${[...sides, formatContamination(split)].join('; ')}`
}

function contaminationRow(evaluation: EvaluationRecord, cutoff: string): string[] {
  const split = splitByCutoff({ tasks: evaluation.tasks, cutoff })
  const { before, after, unknown } = split
  const cells = [before, after, unknown].flatMap((score) => [
    score === null ? '–' : show(evaluation, score),
    String(score?.tasks ?? 0),
  ])
  return [evaluation.name, ...cells, formatContamination(split)]
}

function show({ name }: EvaluationRecord, score: DatedScore): string {
  return `${showTaskMean(`${name} by date`, score)} (${showInterval(score.interval)})`
}

function formatContamination({ before, after, unknown }: ContaminationSplit): string {
  if (before === null && after === null) return 'no task has a date: nothing can be said'
  const undated = unknown === null ? '' : ', as far as dates are known'
  if (before === null) return `no task is older: none can be in the training data${undated}`
  if (after === null) return `every task is older: all may be in the training data${undated}`
  return before.interval.low > after.interval.high
    ? 'better on older tasks: contamination is likely'
    : 'no clear difference'
}
