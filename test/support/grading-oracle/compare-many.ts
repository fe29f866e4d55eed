import { compareCase, type Difference, type Outcome } from './compare.ts'
import { logCase } from './log-cases.ts'
import { type OracleKind, startOracle } from './oracle.ts'

export interface ComparisonOfMany {
  cases: number
  outcomes: Record<Outcome, number>
  differences: Difference[]
}

/** Few enough for two pipes, many enough that neither side waits long for the other. */
const CASES_AT_ONCE = 250

/** Compares cases 0 to below `cases` of a seed, through one process of the harness. */
export async function compareMany({
  kind,
  seed,
  cases,
}: {
  kind: OracleKind
  seed: number
  cases: number
}): Promise<ComparisonOfMany> {
  const outcomes: Record<Outcome, number> = {
    error: 0,
    'parser alone': 0,
    'not found or empty': 0,
    resolved: 0,
    unresolved: 0,
  }
  const differences: Difference[] = []
  const oracle = await startOracle(kind)
  try {
    for (let from = 0; from < cases; from += CASES_AT_ONCE) {
      const count = Math.min(CASES_AT_ONCE, cases - from)
      const some = Array.from({ length: count }, (_, offset) =>
        logCase({ profile: oracle.profile, texts: oracle.texts, seed, index: from + offset }),
      )
      const answers = await oracle.ask(some)
      for (const [index, answer] of answers.entries()) {
        const one = some[index]
        if (one === undefined) throw new Error(`No case for answer ${answer.id}`)
        const { outcome, difference } = compareCase(oracle.profile, one, answer)
        outcomes[outcome] += 1
        if (difference !== null) differences.push(difference)
      }
    }
  } finally {
    await oracle.stop()
  }
  return { cases, outcomes, differences }
}
