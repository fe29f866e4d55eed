import type { AuditVerdict } from '../../contracts/audit.types.ts'
import type { VerdictKind } from '../../contracts/episodes.types.ts'
import type { FlippingTest, GateCheck, GateOutcome } from '../../contracts/gates.types.ts'

/** The part of a grading that the rules read. */
export interface GradedCheck {
  check: GateCheck
  /** From 1. */
  repeat: number
  verdict: VerdictKind
  reason: string | null
  /** Status of each listed test that did not pass. */
  notPassed: Readonly<Record<string, string>>
  /** Audit of the gold patch; absent for the empty one, and in records of versions without audits. */
  audit?: AuditVerdict
}

/** A check that failed this often and never passed is not repeated. */
const GIVE_UP_AFTER = 3

/** Number of gradings of the empty patch that prove FAIL_TO_PASS. */
const EMPTY_PROOF = 3

/**
 * Returns how often each patch is graded. The gold patch shows that tests are deterministic, so it is graded as often as the recipe
 * says. The empty patch only shows that the tests fail without the repair, for which three agreeing runs suffice: the same tests run in
 * the same image, so randomness in them shows in the gold runs.
 */
export function gateRepeats(repeats: number): Record<GateCheck, number> {
  return { gold: repeats, empty: Math.min(repeats, EMPTY_PROOF) }
}

/**
 * Returns whether a check holds: the gold patch must resolve the task, and the empty one must not. For the empty patch the data set's
 * tests run on the unrepaired repository, as every harness does with an empty prediction, and some of those that should begin to pass
 * must fail.
 */
export function isGateCheckOk({ check, verdict }: Pick<GradedCheck, 'check' | 'verdict'>): boolean {
  return verdict === (check === 'gold' ? 'resolved' : 'unresolved')
}

/** A task whose own solution is not confirmed by the audit could never be rewarded. */
function isAudited({ check, audit }: GradedCheck): boolean {
  return check !== 'gold' || audit?.outcome === 'agrees'
}

/**
 * Returns the next check that adds information; null if the gate of the task is decided.
 * @param stopAtFirst refuses the task after one failed check, if no reader needs all reasons
 * @param needsAudit rewards without a confirming audit are not paid. Default: they are paid
 */
export function nextGateCheck({
  checks,
  repeats,
  stopAtFirst,
  needsAudit = false,
}: {
  checks: readonly GradedCheck[]
  repeats: number
  stopAtFirst: boolean
  needsAudit?: boolean
}): { check: GateCheck; repeat: number } | null {
  const failed = checks.filter((check) => !isGateCheckOk(check) || (needsAudit && !isAudited(check)))
  if (stopAtFirst && failed.length > 0) return null
  // A patch that does not apply will never apply.
  if (failed.some(({ check, reason }) => check === 'gold' && reason === 'patch-rejected')) return null
  // A row whose tests the audit does not support will never get one.
  if (needsAudit && checks.some(({ audit }) => audit?.outcome === 'unsupported')) return null
  const isHopeless = (['gold', 'empty'] as const).some((name) => {
    const failures = failed.filter(({ check }) => check === name).length
    return failures >= GIVE_UP_AFTER && failures === checks.filter(({ check }) => check === name).length
  })
  if (isHopeless) return null
  const made = new Set(checks.map(({ check, repeat }) => `${check}/${repeat}`))
  const wanted = gateRepeats(repeats)
  for (let repeat = 1; repeat <= repeats; repeat++) {
    if (!made.has(`gold/${repeat}`)) return { check: 'gold', repeat }
    if (repeat <= wanted.empty && !made.has(`empty/${repeat}`)) return { check: 'empty', repeat }
  }
  return null
}

/** Requires that every repeat of both checks holds and that repeats agree. One differing run reveals flaky tests, which give no
 *  signal. */
export function judgeGate({
  checks,
  repeats,
  needsAudit = false,
}: {
  checks: readonly GradedCheck[]
  repeats: number
  /** As in `nextGateCheck`. */
  needsAudit?: boolean
}): {
  outcome: GateOutcome
  reason: string | null
  flips: FlippingTest[]
} {
  const gold = checks.filter(({ check }) => check === 'gold')
  const empty = checks.filter(({ check }) => check === 'empty')
  const flips = [...flippingTests(gold), ...flippingTests(empty)]
  const refuse = (outcome: GateOutcome, reason: string) => ({ outcome, reason, flips })

  const lost = checks.find(({ verdict }) => verdict === 'could-not-grade')
  if (lost !== undefined) {
    const same = checks.filter(({ check, verdict }) => check === lost.check && verdict === 'could-not-grade')
    const made = lost.check === 'gold' ? gold : empty
    return refuse(
      'could-not-gate',
      `the ${lost.check} patch could not be graded in ${same.length} of ${made.length} (${lost.reason})`,
    )
  }
  for (const [name, side] of [
    ['gold', gold],
    ['empty', empty],
  ] as const) {
    const resolved = side.filter(({ verdict }) => verdict === 'resolved').length
    if (resolved > 0 && resolved < side.length) {
      return refuse('flaky', `the ${name} patch resolved ${resolved} of ${side.length} times${named(flips, name)}`)
    }
  }
  if (gold.some((check) => !isGateCheckOk(check))) {
    return refuse('gold-fails', `the gold patch was unresolved${because(gold)}, expected resolved`)
  }
  if (empty.some((check) => !isGateCheckOk(check))) {
    return refuse('empty-resolves', 'the empty patch was resolved, expected unresolved')
  }
  const coins = flips.filter(isCoin)
  if (coins.some(({ check }) => check === 'gold')) {
    return refuse('flaky', `listed tests ended differently${named(coins, 'gold')}`)
  }
  if (coins.length > 0) {
    return refuse('flaky', `listed tests ended differently without the gold patch${named(coins, 'empty')}`)
  }
  const unaudited = needsAudit ? gold.filter((check) => !isAudited(check)) : []
  if (unaudited.length > 0) return refuse('not-auditable', formatUnaudited(unaudited, gold.length))
  const wanted = gateRepeats(repeats)
  if (gold.length < wanted.gold || empty.length < wanted.empty)
    return refuse('could-not-gate', 'not every check was made')
  return { outcome: 'passed', reason: null, flips }
}

/** With the gold patch every difference counts as flaky. Without it a test may fail in different ways, so only a test that sometimes
 *  passes is flaky. */
function isCoin({ check, statuses }: FlippingTest): boolean {
  return check === 'gold' || Object.hasOwn(statuses, 'PASSED')
}

/** Listed tests whose result differs between graded repeats. */
function flippingTests(checks: readonly GradedCheck[]): FlippingTest[] {
  const graded = checks.filter(({ verdict }) => verdict !== 'could-not-grade')
  const [first] = graded
  if (first === undefined) return []
  const named = new Set(graded.flatMap(({ notPassed }) => Object.keys(notPassed)))
  return [...named].flatMap((test) => {
    const statuses: Record<string, number> = {}
    for (const { notPassed } of graded) {
      // A test may have the name of a method that every object has, such as toString.
      const status = Object.hasOwn(notPassed, test) ? (notPassed[test] ?? 'PASSED') : 'PASSED'
      statuses[status] = (statuses[status] ?? 0) + 1
    }
    return Object.keys(statuses).length > 1 ? [{ check: first.check, test, statuses }] : []
  })
}

function named(flips: readonly FlippingTest[], check: GateCheck): string {
  const tests = flips.filter((flip) => flip.check === check).map(({ test }) => test)
  if (tests.length === 0) return ''
  return `: ${tests.slice(0, 3).join(', ')}${tests.length > 3 ? ` and ${tests.length - 3} more` : ''}`
}

function because(checks: readonly GradedCheck[]): string {
  const reason = checks.find(({ reason }) => reason !== null)?.reason
  return reason === undefined ? '' : ` (${reason})`
}

function formatUnaudited(unaudited: readonly GradedCheck[], gradings: number): string {
  const audit = unaudited.find((check) => check.audit !== undefined)?.audit
  if (audit === undefined) return 'the gold patch was graded without an audit; gate the suite again'
  if (audit.outcome === 'unsupported') {
    return 'no audit exists for its test runner; grading.unauditedRewards: allow admits it'
  }
  const what = [audit.reasons.join(', '), ...(audit.detail === null ? [] : [audit.detail])].join(': ')
  return `the audit of the gold patch disagreed in ${unaudited.length} of ${gradings} gradings (${what})`
}
