/** Scores by the date of tasks: those that the model may have read in training, and those that it cannot have read. */
import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import { type ContaminationSplit, type DatedScore, splitByCutoff } from '../domain/statistics/contamination.ts'
import { showInterval, showTaskMean } from './means.ts'
import type { ReportData } from './report-data.ts'
import { number, type Table, text } from './tables.ts'

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
