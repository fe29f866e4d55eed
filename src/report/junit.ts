/**
 * JUnit XML for CI systems; a test case is a task. `failure`: graded, and unresolved in at least one attempt; `error`: no attempt has a
 * verdict; `skipped`: the task's gate refused it. The case's output lists the attempts: the schema that Jenkins uses (junit-10.xsd) has no
 * properties of a case.
 */
import type { AttemptSummary, EvaluatedTask, EvaluationDocument } from '../contracts/evaluations.types.ts'
import type { RuleVerdict } from './ci-summary.ts'
import { cut, xmlAttribute, xmlText } from '../domain/hostile-text.ts'

/** Longest output of one case, in characters. */
const MAX_OUTPUT = 64 * 1024

export interface JUnitRun {
  workflowId: string
  /** Requested rules with their results, as text. */
  verdicts: readonly RuleVerdict[]
}

/** Without a document (no evaluation could be read), only the rules are cases. */
export function renderJUnit(document: EvaluationDocument | null, { workflowId, verdicts }: JUnitRun): string {
  const rules = suite('longhaul.rules', ruleCases(verdicts), [])
  const suites = document === null ? [rules] : [evaluationSuite(document, workflowId), rules]
  const shown = suites.filter(({ tests }) => tests > 0)
  const sum = (count: (one: Suite) => number): number => shown.reduce((total, one) => total + count(one), 0)
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="${xmlAttribute(workflowId)}" tests="${sum(({ tests }) => tests)}" failures="${sum(({ failures }) => failures)}" errors="${sum(({ errors }) => errors)}">`,
    ...shown.map(({ text }) => text),
    '</testsuites>',
    '',
  ].join('\n')
}

interface Case {
  kind: 'passed' | 'failure' | 'error' | 'skipped'
  text: string
}

interface Suite {
  tests: number
  failures: number
  errors: number
  text: string
}

function suite(name: string, cases: readonly Case[], properties: readonly [string, string][]): Suite {
  const count = (kind: Case['kind']): number => cases.filter((one) => one.kind === kind).length
  const [failures, errors, skipped] = [count('failure'), count('error'), count('skipped')]
  const text = [
    `  <testsuite name="${xmlAttribute(name)}" tests="${cases.length}" failures="${failures}" errors="${errors}" skipped="${skipped}">`,
    '    <properties>',
    ...properties.map(([key, value]) => `      <property name="${xmlAttribute(key)}" value="${xmlAttribute(value)}"/>`),
    '    </properties>',
    ...cases.map((one) => one.text),
    '  </testsuite>',
  ].join('\n')
  return { tests: cases.length, failures, errors, text }
}

function evaluationSuite(
  { evaluation, attempts, refused, verdicts = [] }: EvaluationDocument,
  workflowId: string,
): Suite {
  const byTask = Map.groupBy(attempts, ({ taskId }) => taskId)
  const { run, name, score, interval, suite: hash } = evaluation
  const bounds: [string, string][] =
    interval === null
      ? []
      : [
          ['pass@1.lower', String(interval.low)],
          ['pass@1.upper', String(interval.high)],
        ]
  return suite(
    `longhaul.${run}.${name}`,
    [
      ...evaluation.tasks.map((task) => taskCase(task, byTask.get(task.taskId) ?? [], evaluation.attempts)),
      ...refused.map(({ taskId, reason }) =>
        caseOf('skipped', { classname: 'refused', name: taskId, message: reason }),
      ),
    ],
    [
      ['workflow', workflowId],
      ['policy', score.policy],
      ['suite', hash],
      ['attempts', String(evaluation.attempts)],
      ['pass@1', String(score.passAt1)],
      ['sem', String(score.sem)],
      ...bounds,
      ...verdicts.flatMap(({ against, outcome, statement }): [string, string][] => [
        [`against.${against}`, outcome],
        [`against.${against}.because`, statement],
      ]),
    ],
  )
}

function taskCase(task: EvaluatedTask, attempts: readonly AttemptSummary[], asked: number): Case {
  const { taskId, repo, outcomes, lost } = task
  const resolved = outcomes.filter((outcome) => outcome === 1).length
  const counts = `resolved ${resolved} of ${outcomes.length} graded attempts, ${asked} asked for, ${lost} lost`
  const kind = outcomes.length === 0 ? 'error' : resolved < outcomes.length ? 'failure' : 'passed'
  const output = [counts, ...attempts.map(describeAttempt)].join('\n')
  return caseOf(kind, { classname: repo, name: taskId, message: counts, output })
}

function describeAttempt({
  index,
  disposition,
  verdict,
  reason,
  failure,
  suspectedHack,
  turns,
}: AttemptSummary): string {
  const because = [reason, failure].filter((one) => one !== null && one !== '')
  return [
    `attempt ${index}: ${verdict ?? 'not graded'}`,
    ...(because.length === 0 ? [] : [`(${because.join(', ')})`]),
    `after ${turns} turns, ${disposition}${suspectedHack ? ', suspected hack' : ''}`,
  ].join(' ')
}

function ruleCases(verdicts: JUnitRun['verdicts']): Case[] {
  const kinds = { passed: 'passed', failed: 'failure', unknown: 'error' } as const
  return verdicts.map(({ state, text }, index) =>
    caseOf(kinds[state], { classname: 'longhaul.rules', name: `rule ${index + 1}`, message: text, output: text }),
  )
}

interface CaseText {
  classname: string
  name: string
  message: string
  output?: string
}

function caseOf(kind: Case['kind'], { classname, name, message, output }: CaseText): Case {
  const inside = [
    ...(kind === 'passed' ? [] : [`      <${kind} message="${xmlAttribute(message)}"/>`]),
    ...(output === undefined ? [] : [`      <system-out>${xmlText(cut(output, MAX_OUTPUT))}</system-out>`]),
  ]
  const attributes = `classname="${xmlAttribute(classname)}" name="${xmlAttribute(name)}"`
  return { kind, text: [`    <testcase ${attributes}>`, ...inside, '    </testcase>'].join('\n') }
}
