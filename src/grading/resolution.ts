import type { StatusMap } from './parsers/status-map.ts'

export interface ListedTests {
  failToPass: readonly string[]
  passToPass: readonly string[]
}

export interface TestList {
  success: string[]
  failure: string[]
}

export interface TestLists {
  failToPass: TestList
  passToPass: TestList
}

/** `fail_only` is for suites whose logs name only failures: every other test counts as passed. */
export type EvalType = 'pass_and_fail' | 'fail_only'

/** The meaning of a status in a list. As upstream has it, a test with any other status is left out of both sides. */
interface Meaning {
  success: readonly string[]
  /** A test that is missing from the log fails too. */
  failure: readonly string[]
}

export interface ResolutionRules {
  failToPass: Meaning
  passToPass: Meaning
  /** Whether an id that was cut inside its parameters matches the tests that begin with it. */
  matchesCutIds: boolean
}

const PASSING = ['PASSED', 'XFAIL'] as const
const FAILING = ['FAILED', 'ERROR'] as const

/** swebench 4.x and the fork: skipped tests are left out, so a list of only skipped tests is complete. */
export const RESOLUTION_4: ResolutionRules = {
  failToPass: { success: PASSING, failure: FAILING },
  passToPass: { success: PASSING, failure: FAILING },
  matchesCutIds: false,
}

/** swebench 5: a skipped test has not begun to pass, but is not lost either. */
export const RESOLUTION_5: ResolutionRules = {
  failToPass: { success: PASSING, failure: [...FAILING, 'SKIPPED'] },
  passToPass: { success: [...PASSING, 'SKIPPED'], failure: FAILING },
  matchesCutIds: true,
}

/** Sorts the listed tests by their status in the log, in the order of the lists. */
export function sortTests({
  tests,
  statuses,
  rules,
  evalType = 'pass_and_fail',
}: {
  tests: ListedTests
  statuses: StatusMap
  rules: ResolutionRules
  evalType?: EvalType
}): TestLists {
  const sort = (ids: readonly string[], meaning: Meaning): TestList => {
    const list: TestList = { success: [], failure: [] }
    for (const id of ids) {
      const side = evalType === 'fail_only' ? failOnlySide(id, statuses) : sideOf(id, statuses, meaning, rules)
      if (side !== null) list[side].push(id)
    }
    return list
  }
  return {
    failToPass: sort(tests.failToPass, rules.failToPass),
    passToPass: sort(tests.passToPass, rules.passToPass),
  }
}

/** Every test that should begin to pass passes, and no passing test is lost. Empty lists are complete. */
export function isResolved({ failToPass, passToPass }: TestLists): boolean {
  return failToPass.failure.length === 0 && passToPass.failure.length === 0
}

function failOnlySide(id: string, statuses: StatusMap): keyof TestList {
  return statuses.get(id) === 'FAILED' ? 'failure' : 'success'
}

function sideOf(id: string, statuses: StatusMap, meaning: Meaning, rules: ResolutionRules): keyof TestList | null {
  const status = statuses.get(id) ?? (rules.matchesCutIds ? statusOfCutId(id, statuses) : undefined)
  if (status === undefined || meaning.failure.includes(status)) return 'failure'
  return meaning.success.includes(status) ? 'success' : null
}

/** The status of the first test that begins with the id, if all such tests pass or none does. */
function statusOfCutId(id: string, statuses: StatusMap): string | undefined {
  if (id.split('[').length <= id.split(']').length) return undefined
  const found = [...statuses].filter(([name]) => name.startsWith(id)).map(([, status]) => status)
  const isPassing = (status: string): boolean => PASSING.some((word) => word === status)
  const passing = found.filter(isPassing).length
  return passing === 0 || passing === found.length ? found[0] : undefined
}
