import { appendFile } from 'node:fs/promises'
import { showMean } from '../../domain/statistics/statistics.ts'
import { requireWritable, writeResult } from './require-writable.ts'
import { type LonghaulConnection, type RunOutcome, readEvaluation } from '../../client/index.ts'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import type { EvaluationDocument, EvaluationRecord } from '../../contracts/evaluations.types.ts'
import type { EvaluateResult } from '../../contracts/workflows.types.ts'
import { gradedShare } from '../../domain/statistics/comparability.ts'
import type { ComparedTask } from '../../domain/statistics/comparison.ts'
import { type CiSummary, renderAnnotations, renderCiSummary } from '../../report/ci-summary.ts'
import { renderJUnit } from '../../report/junit.ts'
import {
  type ScoredInterval,
  type Threshold,
  judgeThreshold,
  readEvaluationFile,
  splitEvaluationName,
} from '../arguments/evaluation-argument.ts'
import { describeScore } from '../commands/train.ts'
import { uiLink } from '../local-stack.ts'
import { type RuleFinding, compareAndJudge } from './compare-evaluations.ts'
import { type Console, describeFailure } from './console.ts'
import { EXIT, type ExitCode, combineExitCodes, describeExit } from './exit-codes.ts'
import { contaminationLine } from '../../report/evaluation-tables.ts'
import { showTaskMean } from '../../report/means.ts'
import { formatOrigin } from '../../report/suite-table.ts'

/** Options for rules about an evaluation, and for the files that are written about it. */
export interface JudgeOptions {
  threshold?: Threshold
  baseline?: string
  maxRegression?: number
  confidence: number
  strict?: true
  minGraded: number
  junit?: string
  summary?: string
  json?: true
}

/** How a followed evaluation ended, or that the command detached from it. */
export type JudgedEnding =
  | { kind: 'completed'; result: EvaluateResult; interrupted: boolean }
  | { kind: 'unfinished'; outcome: Exclude<RunOutcome<unknown>, { status: 'completed' }>; exitCode: ExitCode }
  | { kind: 'detached' }

export interface EvaluationJudge {
  /** Judges, prints, writes the files. @returns the exit code */
  conclude(workflowId: string, ending: JudgedEnding): Promise<ExitCode>
}

/** Files of this machine that the rules need. */
export interface JudgeFiles {
  /** Null without a baseline, or if it is an evaluation of a run, which a worker reads. */
  baseline: EvaluationRecord | null
}

/**
 * Checks, before any request to the server, that files can be read and written and that the options fit together.
 * @throws LonghaulError `Config.Invalid`, `Config.NotFound`
 */
export async function readJudgeFiles(options: JudgeOptions): Promise<JudgeFiles> {
  requireRules(options)
  const { baseline, junit, summary } = options
  await requireWritable({ files: { '--junit': junit, '--summary': summary } })
  return { baseline: baseline?.endsWith('.json') === true ? await readEvaluationFile(baseline) : null }
}

/**
 * Reads what else the rules need before anything is started, only through Temporal, so that a mistake costs no run.
 * @throws LonghaulError `Config.NotFound`
 */
export async function prepareJudge({
  connection,
  console,
  options,
  files,
}: {
  connection: LonghaulConnection
  console: Console
  options: JudgeOptions
  files: JudgeFiles
}): Promise<EvaluationJudge> {
  const baseline = files.baseline ?? (await readBaseline(connection, options))
  return {
    conclude: async (workflowId, ending) => {
      const judged =
        ending.kind === 'completed'
          ? await judgeCompleted({ connection, options, baseline, ...ending })
          : judgeUnfinished(workflowId, ending)
      await writeFiles(workflowId, judged, { options, console })
      print(judged, { options, console })
      return judged.exitCode
    },
  }
}

/** @throws LonghaulError `Config.Invalid` */
function requireRules({ baseline, maxRegression, strict }: JudgeOptions): void {
  if (baseline !== undefined || (maxRegression === undefined && strict !== true)) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected --baseline beside --max-regression and --strict',
  })
}

async function readBaseline(
  connection: LonghaulConnection,
  { baseline }: JudgeOptions,
): Promise<EvaluationRecord | null> {
  if (baseline === undefined) return null
  const { evaluation } = await readEvaluation({ connection, ...splitEvaluationName(baseline) })
  return evaluation
}

interface Judged {
  exitCode: ExitCode
  codes: ExitCode[]
  findings: RuleFinding[]
  document: EvaluationDocument | null
  flips: readonly ComparedTask[] | null
  /** Text lines above the findings. */
  lines: string[]
  facts: object
}

async function judgeCompleted({
  connection,
  options,
  baseline,
  result,
  interrupted,
}: {
  connection: LonghaulConnection
  options: JudgeOptions
  baseline: EvaluationRecord | null
  result: EvaluateResult
  interrupted: boolean
}): Promise<Judged> {
  const read = await readResult(connection, result)
  const document = read.kind === 'read' ? read.document : null
  const further = document?.further ?? []
  const lines = [
    ...further.flatMap((one) => [describeScore(one.score), ...describeEvaluation(one, document?.cutoff ?? null)]),
    describeScore(result),
    ...(document === null ? [] : describeEvaluation(document.evaluation, document.cutoff)),
    ...(result.verdicts ?? []).map(
      ({ against, statement }) => `against the ${against === 'last' ? 'last night' : 'baseline'}: ${statement}`,
    ),
    ...(read.kind === 'read' ? [] : [read.why]),
  ]
  const { graded, interval } = evidenceOf(result, document)
  const { findings, flips } = judge({ result, document, graded, interval, baseline, options })
  const wantsRecord = options.junit !== undefined || options.summary !== undefined
  const codes: ExitCode[] = [
    interrupted ? EXIT.interrupted : EXIT.ok,
    ...findings.map(({ code }) => code),
    // Without its cases, a file would look like a job without tests.
    ...(wantsRecord && document === null ? [EXIT.infra] : []),
  ]
  return {
    exitCode: combineExitCodes(codes),
    codes,
    findings,
    document,
    flips,
    lines,
    facts: { result, further: further.map(({ score, interval }) => ({ ...score, interval })), graded },
  }
}

type ReadResult = { kind: 'read'; document: EvaluationDocument } | { kind: 'unread'; why: string }

/** Reads the tasks; the score came with the run's result. */
async function readResult(connection: LonghaulConnection, { run, name }: EvaluateResult): Promise<ReadResult> {
  try {
    return { kind: 'read', document: await readEvaluation({ connection, run, name }) }
  } catch (error) {
    if (!isLonghaulError(error)) throw error
    return { kind: 'unread', why: `the record of the evaluation was not read: ${error.code}: ${error.message}` }
  }
}

interface Evidence {
  graded: number | null
  interval: ScoredInterval
}

function evidenceOf({ passAt1: mean, sem, evidence }: EvaluateResult, document: EvaluationDocument | null): Evidence {
  const graded = evidence?.graded ?? (document === null ? null : gradedShare(document.evaluation))
  const bounds = evidence?.interval ?? document?.evaluation.interval ?? null
  if (bounds !== null) {
    return { graded, interval: { mean, ...bounds, source: 'cluster bootstrap, widened for few tasks' } }
  }
  // Without an interval, 1.96 standard errors to each side replace it.
  return {
    graded,
    interval: { mean, low: mean - 1.96 * sem, high: mean + 1.96 * sem, source: 'normal approximation' },
  }
}

interface JudgeInput extends Evidence {
  result: EvaluateResult
  document: EvaluationDocument | null
  baseline: EvaluationRecord | null
  options: JudgeOptions
}

/** The graded share comes first: below the minimum, no number says anything about the policy. */
function judge({ document, graded, interval, baseline, options }: JudgeInput): {
  findings: RuleFinding[]
  flips: readonly ComparedTask[] | null
} {
  const { threshold, minGraded } = options
  const isJudged = threshold !== undefined || baseline !== null
  if (graded === null && (isJudged || minGraded > 0)) {
    const text =
      'how much was graded is not known: an earlier version made this run and no worker could read its record'
    return { findings: [{ code: EXIT.infra, text }], flips: null }
  }
  if (graded !== null && graded < minGraded) {
    const text = `too little was graded: ${(graded * 100).toFixed(1)} % < ${(minGraded * 100).toFixed(1)} %; this says nothing about the policy`
    return { findings: [{ code: EXIT.infra, text }], flips: null }
  }
  const findings: RuleFinding[] = []
  if (threshold !== undefined) {
    const { met, verdict } = judgeThreshold(threshold, interval)
    findings.push({ code: met ? EXIT.ok : EXIT.threshold, text: verdict })
  }
  if (baseline === null) return { findings, flips: null }
  const compared = compare(baseline, document, options)
  return { findings: [...findings, ...compared.findings], flips: compared.flips }
}

function compare(
  before: EvaluationRecord,
  document: EvaluationDocument | null,
  { confidence, maxRegression, strict, minGraded }: JudgeOptions,
): { findings: RuleFinding[]; flips: readonly ComparedTask[] | null } {
  if (document === null) {
    return {
      findings: [{ code: EXIT.infra, text: 'no record of the evaluation was read, so it was not compared' }],
      flips: null,
    }
  }
  try {
    const { findings, data } = compareAndJudge({
      before,
      after: document.evaluation,
      confidence,
      intersect: false,
      maxRegression: maxRegression ?? 0,
      minDifference: null,
      strict: strict === true,
      minGraded,
    })
    return { findings, flips: data.comparison.flips }
  } catch (error) {
    if (!isLonghaulError(error)) throw error
    // Not exit code 1: the run has ended, and a baseline of other tasks only leaves it without a verdict.
    return { findings: [{ code: EXIT.infra, text: `not compared with the baseline: ${error.message}` }], flips: null }
  }
}

function judgeUnfinished(workflowId: string, ending: Exclude<JudgedEnding, { kind: 'completed' }>): Judged {
  const code = ending.kind === 'detached' ? EXIT.interrupted : ending.exitCode
  const text =
    ending.kind === 'detached'
      ? `interrupted before the end; longhaul wait ${workflowId} waits for it again`
      : describeFailure(ending.outcome)
  return {
    exitCode: code,
    codes: [code],
    findings: [{ code, text }],
    document: null,
    flips: null,
    lines: [],
    facts: ending.kind === 'detached' ? { outcome: { status: 'detached' } } : { outcome: ending.outcome },
  }
}

interface Writing {
  options: JudgeOptions
  console: Console
}

async function writeFiles(workflowId: string, judged: Judged, { options, console }: Writing): Promise<void> {
  const { exitCode, findings, document, flips } = judged
  const verdicts = findings.map(({ code, text, isOpen }) => ({
    state: stateOf(code),
    text,
    // A rule that fails already says so.
    isOpen: isOpen === true && code === EXIT.ok,
  }))
  const summary: CiSummary = {
    workflowId,
    ui: uiLink(workflowId),
    exitCode,
    meaning: describeExit(exitCode),
    verdicts,
    document,
    flips,
  }
  if (options.junit !== undefined) await writeResult(options.junit, renderJUnit(document, { workflowId, verdicts }))
  if (options.summary === undefined) return
  // Other steps may have written to the job's page; any other file contains only this evaluation.
  const isJobPage = options.summary === process.env['GITHUB_STEP_SUMMARY']
  await (isJobPage ? appendFile : writeResult)(options.summary, renderCiSummary(summary))
  if (process.env['GITHUB_ACTIONS'] === 'true') for (const line of renderAnnotations(summary)) console.command(line)
}

function stateOf(code: ExitCode): 'passed' | 'failed' | 'unknown' {
  if (code === EXIT.ok) return 'passed'
  return code === EXIT.threshold || code === EXIT.regression ? 'failed' : 'unknown'
}

function print({ exitCode, codes, findings, lines, document, facts }: Judged, { options, console }: Writing): void {
  const said = [...lines, ...findings.map(({ text }) => text)]
  if (options.json === true) {
    const files = { junit: options.junit ?? null, summary: options.summary ?? null }
    console.record({
      event: 'done',
      exitCode,
      codes,
      ...facts,
      verdicts: findings,
      verdict: said.at(-1) ?? null,
      files,
    })
  } else if (document === null && lines.length === 0) console.err(said.join('\n'))
  else console.out(said.join('\n'))
}

/**
 * Lines beside a score: its uncertainty, the official count, what was paid, what the model may have read, the cost.
 * @param cutoff end of the model's training data
 */
export function describeEvaluation(record: EvaluationRecord, cutoff: string | null): string[] {
  const { origin } = record
  return [
    describeDoubt(record),
    ...describeAudit(record),
    ...(origin === undefined ? [] : [formatOrigin(origin)]),
    ...(cutoff === null ? [] : [contaminationLine(record, cutoff)]),
    ...describeCost(record),
  ]
}

function describeDoubt({ interval, semOver, official, tasks }: EvaluationRecord): string {
  const lost = tasks.reduce((sum, { lost }) => sum + lost, 0)
  const bounds = interval === null ? '' : `95 % interval ${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}; `
  return `${bounds}SEM over ${semOver}; officially ${showMean({ ...official, mean: official.passAt1 })} with ${lost} of ${official.tasks * official.attempts} attempts lost`
}

/** Empty for evaluations of earlier versions. */
function describeAudit({ audited }: EvaluationRecord): string[] {
  if (audited === undefined) return []
  const { resolved, paid, unaudited, differences } = audited
  const counts = [...Map.groupBy(differences, ({ because }) => because)].map(([why, found]) => `${found.length} ${why}`)
  const rest = counts.length === 0 ? '' : `; not paid: ${counts.join(', ')}`
  const without = unaudited === 0 ? '' : `, ${unaudited} of them without an audit`
  return [`audited: ${paid} of ${resolved} resolved attempts are paid${without}${rest}`]
}

/** Empty if the recipe has no prices. */
function describeCost({ cost }: EvaluationRecord): string[] {
  if (cost === undefined) return []
  const { attempt, graded, lost, unknown, prices } = cost
  const mean = attempt === null ? '' : `, ${showTaskMean('cost', attempt, 4)} an attempt`
  const uncounted = unknown === 0 ? '' : `; ${unknown} attempts were not counted`
  return [`cost ${(graded + lost).toFixed(4)} ${prices.currency}${mean}${uncounted}`]
}
