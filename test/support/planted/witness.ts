import type { FileResult } from '../runner/file-result.ts'
import { HANG_MS } from '../hang.ts'
import { runTestFiles } from '../runner/run-test-files.ts'
import { runTrainerTests } from '../runner/run-trainer-tests.ts'
import type { WarmPython } from '../warm-process.ts'

/** The test that must detect a plant. */
export interface Witness {
  /** A test file of Node, or of pytest if it ends in `.py`; relative to the repository's root. */
  file: string
  /** Its title, without those of the surrounding suites; for pytest `test_name` with all its cases, or `test_name[case]`. */
  test: string
}

export type Testimony = { end: 'passed' } | { end: 'failed'; why: string } | { end: 'skipped'; why: string }

/** Runs one test in the tree at `root`. @throws Error if it is no valid witness, see `hearAll` */
export async function hear(
  root: string,
  { file, test }: Witness,
  signal: AbortSignal,
  python: WarmPython | null = null,
): Promise<Testimony> {
  const said = (await hearAll(root, { file, tests: [test] }, signal, python)).get(test)
  if (said === undefined) throw new Error(`Expected to hear of "${test}"`)
  return said
}

/**
 * Runs tests of one file in the tree at `root` with the runner of `npm test`, against the services in this process's environment.
 * @param python runs the tests of pytest, which may be of different trees; null starts a new process for them
 * @throws Error if a test is no valid witness: no test has its title, its file does not load, a hook failed, or the time is over
 */
export async function hearAll(
  root: string,
  { file, tests }: { file: string; tests: readonly string[] },
  signal: AbortSignal,
  python: WarmPython | null = null,
): Promise<Map<string, Testimony>> {
  const printed: string[] = []
  const print = (text: string): void => void printed.push(text)
  const results = file.endsWith('.py')
    ? await runPytest(root, { file, tests }, { signal, print, warm: python })
    : await runTestFiles({
        root,
        files: [file],
        only: tests,
        concurrency: 1,
        fileTimeoutMs: HANG_MS,
        signal,
        print,
      })
  return testimoniesOf({ file, tests }, results, printed.join(''))
}

/** Testimonies in the results of a run with these tests. @throws Error, see `hearAll` */
export function testimoniesOf(
  { file, tests }: { file: string; tests: readonly string[] },
  results: readonly FileResult[],
  output = '',
): Map<string, Testimony> {
  const failures = results.flatMap((result) => result.failures)
  const skips = results.flatMap((result) => result.skips)
  const passed = results.reduce((sum, result) => sum + result.passed, 0)
  const isPytest = file.endsWith('.py')
  const isOf = (test: string, title: string): boolean => title === test || (isPytest && title.startsWith(`${test}[`))
  const others = failures.filter(
    ({ test: title, error }) => !tests.some((test) => isOf(test, title)) || /^(?:setup|teardown): /.test(error),
  )
  const [skip] = skips
  // If a whole suite is skipped, its tests are not named.
  if (skip !== undefined && passed + failures.length === 0) {
    return new Map(tests.map((test) => [test, { end: 'skipped', why: skip.reason }]))
  }
  const heard = passed + failures.length + skips.length
  if (others.length > 0 || (isPytest ? heard < tests.length : heard !== tests.length)) {
    const found = others.map((other) => `${other.test}: ${other.error}`).join('\n') || `${heard} tests ran`
    throw new Error(
      `Expected "${tests.join('" and "')}" of ${file} to run by themselves, got\n${found}\n${output.slice(-4_000)}`,
    )
  }
  return new Map(
    tests.map((test): [string, Testimony] => {
      const failure = failures.find((one) => isOf(test, one.test))
      if (failure !== undefined) return [test, { end: 'failed', why: failure.error }]
      const skipped = skips.find((one) => isOf(test, one.test))
      return [test, skipped === undefined ? { end: 'passed' } : { end: 'skipped', why: skipped.reason }]
    }),
  )
}

async function runPytest(
  root: string,
  { file, tests }: { file: string; tests: readonly string[] },
  { signal, print, warm }: { signal: AbortSignal; print: (text: string) => void; warm: WarmPython | null },
): Promise<FileResult[]> {
  const python = process.env['LONGHAUL_PYTHON']
  if (python === undefined) {
    const skips = tests.map((test) => ({ test, reason: 'LONGHAUL_PYTHON is not set' }))
    return [{ file, seconds: 0, passed: 0, failures: [], skips }]
  }
  return runTrainerTests({
    root,
    paths: tests.map((test) => `${file}::${test}`),
    scratch: root,
    python,
    isFull: true,
    timeoutMs: HANG_MS,
    signal,
    print: (line) => print(`${line}\n`),
    ...(warm === null ? {} : { runPython: (input) => warm.run(input) }),
  })
}
