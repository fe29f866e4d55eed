import type { AuditReason, AuditRun, AuditRunner, AuditVerdict } from '../../contracts/audit.types.ts'
import { gradeLog } from '../grade-log.ts'
import { LOG_PROFILES } from '../log-profiles.ts'
import { withoutTiming } from '../test-names.ts'
import { readPatchFiles } from '../patch-files.ts'
import { readAuditAnswer, type AuditAnswer } from './audit-answer.ts'
import { compareWithCanonical } from './canonical-patch.ts'
import { findLeftOut } from './hidden-tests.ts'
import type { AuditedTask, PlannedAudit } from './plan-audit.ts'

export interface JudgeAuditInput {
  task: AuditedTask
  patch: Uint8Array
  planned: PlannedAudit
  run: AuditRun
  /** Whether Longhaul captured the patch: another program may have formatted a foreign patch differently. */
  isCaptured: boolean
}

interface Finding {
  reason: AuditReason
  detail: string | null
}

/** The second opinion on a grading: void if there is any finding, else the result of the tests. */
export function judgeAudit({ task, patch, planned, run, isCaptured }: JudgeAuditInput): AuditVerdict {
  const found: Finding[] = [...planned.voids, ...readRun({ patch, run, isCaptured })]
  const ownRunner = run.kind === 'tested' ? ownRunnerOf(run) : null
  const isTested = run.kind !== 'read' && run.kind !== 'untestable' && ownRunner === null
  const tests = isTested ? planned.plan.tests : null
  if (found.length === 0 && tests !== null) {
    found.push(...judgeTests(task, tests.runner, run).map((finding) => withLeftOut(finding, patch, planned)))
  }
  const outcome = found.length > 0 ? 'void' : tests !== null ? 'agrees' : 'unsupported'
  return {
    outcome,
    reasons: [...new Set(found.map(({ reason }) => reason))],
    detail: (found.find(({ detail }) => detail !== null)?.detail ?? ownRunner)?.slice(0, MAX_DETAIL) ?? null,
    auditMs: run.wallMs,
  }
}

/** Tables show the detail, and every verdict stores it. */
const MAX_DETAIL = 300

function readRun({ patch, run, isCaptured }: Pick<JudgeAuditInput, 'patch' | 'run' | 'isCaptured'>): Finding[] {
  const said = lastLine(run.errors)
  switch (run.kind) {
    case 'does-not-apply':
    case 'does-not-fit':
      return [{ reason: 'patch-not-canonical', detail: said }]
    case 'tests-do-not-apply':
      return [{ reason: 'tests-not-whole', detail: said }, ...differing(patch, run, isCaptured)]
    case 'read':
    case 'untestable':
    case 'failed':
    case 'tested':
      return differing(patch, run, isCaptured)
  }
}

function differing(patch: Uint8Array, { canonicalPatch }: AuditRun, isCaptured: boolean): Finding[] {
  const reason = isCaptured ? compareWithCanonical(patch, canonicalPatch) : null
  return reason === null ? [] : [{ reason, detail: null }]
}

function judgeTests(task: AuditedTask, runner: AuditRunner, run: AuditRun): Finding[] {
  if (run.kind === 'failed') return [{ reason: 'ended-early', detail: lastLine(run.errors) }]
  const answer = readAuditAnswer(run.result)
  if (answer === null) return [{ reason: 'results-forged', detail: 'the answer of the audit cannot be read' }]
  const { ended, detail, canaries, changed, tests } = answer
  return [
    ...(ENDINGS[ended] === null ? [] : [{ reason: ENDINGS[ended], detail }]),
    ...(changed.length === 0 ? [] : [{ reason: 'runner-changed' as const, detail: changed.slice(0, 5).join(', ') }]),
    ...canaries.flatMap(({ module, must, ok, outcome }): Finding[] =>
      ok
        ? []
        : [
            {
              reason: must === 'fail' ? 'canary-passed' : 'canary-failed',
              detail: `${module}: ${outcome}, must ${must}`,
            },
          ],
    ),
    ...missing(task, runner, tests),
  ]
}

/** A repair may lie in a file that is named like tests: the detail then says that the audit did not test this file. */
function withLeftOut(finding: Finding, patch: Uint8Array, { plan }: PlannedAudit): Finding {
  if (finding.reason !== 'no-honest-pass') return finding
  const { limits = [], additions = [] } = plan.tests ?? {}
  const left = findLeftOut(readPatchFiles(patch), limits)
  const [first, ...others] = left.filter((path) => !additions.includes(path))
  if (first === undefined) return finding
  const paths = others.length === 0 ? first : `${first} and ${others.length} more`
  return { ...finding, detail: `${finding.detail} (not tested, for it is named like tests: ${paths})` }
}

/** What the script says about a repository that is itself the test runner; null for all others. */
function ownRunnerOf({ result }: AuditRun): string | null {
  const answer = readAuditAnswer(result)
  return answer?.ended === 'own-runner' ? (answer.detail ?? 'the repository is the test runner itself') : null
}

const ENDINGS: Record<AuditAnswer['ended'], AuditReason | null> = {
  complete: null,
  'own-runner': null,
  early: 'ended-early',
  timeout: 'too-slow',
  noise: 'results-forged',
}

/**
 * Each listed test must have passed, and so must every result that the row's parser maps to the same test. Tests of several classes
 * may bear one docstring, which is their name in Django's logs: of those that must keep passing, a class may skip some.
 */
function missing(task: AuditedTask, runner: AuditRunner, tests: AuditAnswer['tests']): Finding[] {
  const named = (isKept: (outcome: string) => boolean): Set<string> =>
    namesOf(
      task,
      runner,
      tests.filter(({ outcome }) => isKept(outcome)),
    )
  const passed = named((outcome) => outcome === 'passed')
  const others = named((outcome) => outcome !== 'passed')
  const failed = named((outcome) => outcome !== 'passed' && outcome !== 'skipped')
  const without = (names: readonly string[], bad: ReadonlySet<string>): string[] =>
    names.filter((test) => {
      const isHonest = (name: string): boolean => passed.has(name) && !bad.has(name)
      if (isHonest(test) || isHonest(withoutTiming(test))) return false
      return !isCutShort(task, test) || !isHonestPrefix(test, passed, bad)
    })
  const found = [
    ...without(task.failToPass, others),
    ...without(task.passToPass, runner === 'django' ? failed : others),
  ]
  const [first] = found
  if (first === undefined) return []
  const more = found.length > 1 ? ` and ${found.length - 1} more` : ''
  return [{ reason: 'no-honest-pass', detail: `${first}${more}` }]
}

/** Version 5 reads whole names; ids that older parsers cut short match by prefix. */
function isCutShort({ gradingProfile }: AuditedTask, test: string): boolean {
  return gradingProfile === 'swebench-5' && test.split('[').length > test.split(']').length
}

function isHonestPrefix(test: string, passed: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  const begins = (names: ReadonlySet<string>): boolean => [...names].some((name) => name.startsWith(test))
  return begins(passed) && !begins(others)
}

/** The names that the row's own parser gives these tests, cut and simplified like the published lists. */
function namesOf(
  { gradingProfile, installConfig }: AuditedTask,
  runner: AuditRunner,
  tests: AuditAnswer['tests'],
): Set<string> {
  const lines = tests
    // unittest prints a test with a description on two lines, and its result after the second.
    .map(({ id }) => (runner === 'pytest' ? id : id.slice(id.lastIndexOf('\n') + 1)))
    .filter(isPlain)
    .map((id) => (runner === 'pytest' ? `PASSED ${id}` : `${id} ... ok`))
  const read = gradeLog({
    profile: LOG_PROFILES[gradingProfile],
    parser: installConfig.logParser,
    log: Buffer.from(`${lines.join('\n')}\n`),
    tests: null,
  })
  const names = read.kind === 'graded' ? [...read.statuses.keys()] : []
  return new Set(names.flatMap((name) => [name, withoutTiming(name)]))
}

/** Control characters and unusual line ends would let one name pose as several. */
function isPlain(id: string): boolean {
  return id.length <= MAX_ID && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(id)
}

const MAX_ID = 4000

function lastLine(text: string): string | null {
  return text.trim().split('\n').at(-1)?.trim() || null
}
