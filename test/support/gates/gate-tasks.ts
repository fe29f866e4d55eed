/** Tasks for gates, in the SWE-rebench layout: sound ones, and one for each finding of a gate. */
import { normalizeRow } from '../../../src/adapters/datasets/normalize-row.ts'
import { createProblem, type Problem } from '../layouts/problem.ts'
import { createRepository } from '../layouts/repository.ts'
import { forkRow } from '../layouts/rows.ts'
import type { LayoutTask } from '../layouts/layout-tasks.ts'

const TESTS = 'tests/test_prices.py'

/** While this file exists, tests of the flaky task fail, like during a short outage of a service. */
export const OUTAGE = '/tmp/outage'

export type GateTaskKind = 'sound' | 'flaky' | 'hidden-name' | 'gold-fails' | 'broken-gold'

/** A task and its image's content; `series` and `number` make ids and images distinct. */
export function createGateTask(kind: GateTaskKind, { series, number }: { series: number; number: number }): LayoutTask {
  const unique = series * 100 + number
  const problem = shape(
    kind,
    createProblem({ runner: 'pytest', number: unique, needsEnvironment: true, addsTestFile: false }),
  )
  const repository = createRepository(problem, { directory: 'testbed', setUpCommit: true })
  const wrongPatch = repository.goldPatch.replaceAll(/^\+(.*) \+ \d+$/gm, '+$1 + 1')
  const changed =
    kind === 'gold-fails'
      ? { ...repository, goldPatch: wrongPatch }
      : kind === 'broken-gold'
        ? { ...repository, goldPatch: repository.goldPatch.replaceAll('add_up(prices)', 'nowhere(in, the, file)') }
        : repository
  const id = `lane__fork-shop-${unique}`
  const input = { id, repo: 'lane/fork-shop', version: '', runner: 'pytest' as const, parser: 'parse_log_pytest' }
  const row = forkRow({ ...input, problem, repository: changed })
  const task = normalizeRow(row)
  return { layout: 'conda', row, task, wrongPatch, archive: { tar: async () => repository.tar, path: '/' } }
}

function shape(kind: GateTaskKind, problem: Problem): Problem {
  if (kind === 'flaky') {
    const test = `\n\ndef test_service():\n    import os\n\n    assert not os.path.exists("${OUTAGE}")\n`
    return withTest(problem, test, { passToPass: [`${TESTS}::test_service`] })
  }
  if (kind === 'hidden-name') {
    const test = '\n\ndef test_second():\n    assert prices.second_cheapest([3, 2]) == 3\n'
    const [path = '', code = ''] = Object.entries(problem.repair)[0] ?? []
    return {
      ...withTest(problem, test, { failToPass: [`${TESTS}::test_second`] }),
      repair: { [path]: `${code}\n\ndef second_cheapest(prices):\n    return sorted(prices)[1]\n` },
    }
  }
  return problem
}

function withTest(
  problem: Problem,
  test: string,
  { failToPass = [], passToPass = [] }: { failToPass?: string[]; passToPass?: string[] },
): Problem {
  return {
    ...problem,
    tests: { ...problem.tests, [TESTS]: `${problem.tests[TESTS]}${test}` },
    failToPass: [...problem.failToPass, ...failToPass],
    passToPass: [...problem.passToPass, ...passToPass],
  }
}
