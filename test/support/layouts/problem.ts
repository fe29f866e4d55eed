/** Content of the layout tasks: a small shop with one wrong sum, and its tests for one of several test runners. */
import { type RunnerName, RUNNERS } from './runners.ts'

export interface Problem {
  /** Files at the base commit; those under `bin/` and named `run*` are executable. */
  files: Record<string, string>
  /** Files that the repair changes. */
  repair: Record<string, string>
  /** Files that the hidden tests change or add. */
  tests: Record<string, string>
  /** Ids as the row's parser reads them from the runner's log. */
  failToPass: string[]
  passToPass: string[]
  /** The runner's test files after the test patch. */
  testFiles: string[]
}

export interface ProblemInput {
  runner: RunnerName
  /** Makes repositories distinct. */
  number: number
  /** Whether the code needs a module that only the activated environment has. */
  needsEnvironment: boolean
  /** Whether the hidden tests are a new file besides a changed one. */
  addsTestFile: boolean
}

export function createProblem({ runner, number, needsEnvironment, addsTestFile }: ProblemInput): Problem {
  const fee = (number % 89) + 2
  const { tools, existing, changed, added, ids } = RUNNERS[runner](fee)
  const code = (sum: string): string => shop({ sum, needsEnvironment, number })
  return {
    files: {
      'README.md': `# Shop ${number}\n`,
      'shop/__init__.py': '',
      'shop/prices.py': code(''),
      ...tools,
      ...existing,
    },
    repair: { 'shop/prices.py': code(` + ${fee}`) },
    tests: { ...changed, ...(addsTestFile ? added : {}) },
    failToPass: [...ids.failToPass],
    passToPass: [...ids.passToPass, ...(addsTestFile ? ids.added : [])],
    testFiles: Object.keys({ ...changed, ...(addsTestFile ? added : {}) }),
  }
}

/** Long enough for patches with several hunks. */
function shop({ sum, needsEnvironment, number }: { sum: string; needsEnvironment: boolean; number: number }): string {
  return `"""Prices of shop ${number}."""
${needsEnvironment ? 'from bedrock import add_up' : 'add_up = sum'}


def cheapest(prices):
    """The lowest price."""
    return min(prices)


def dearest(prices):
    """The highest price."""
    return max(prices)


def count(prices):
    """How many there are."""
    return len(prices)


def average(prices):
    """The mean price."""
    return add_up(prices) / len(prices)


def total(prices):
    """Everything together, and the fee."""
    return add_up(prices)${sum}


def is_free(prices):
    """Whether nothing has to be paid."""
    return not any(prices)


def rounded(prices):
    """Each price in whole units."""
    return [round(price) for price in prices]
`
}
