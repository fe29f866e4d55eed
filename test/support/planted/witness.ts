import type { FileResult } from '../runner/file-result.ts'
import { FILE_LIMIT_MS } from '../hang.ts'
import { runTestFiles } from '../runner/run-test-files.ts'
import { runTrainerTests } from '../runner/run-trainer-tests.ts'
import type { WarmPython } from '../warm-process.ts'

/** The test that must see a plant. */
export interface Witness {
  /** A test file of Node, or of pytest where it ends in `.py`; from the repository's root. */
  file: string
  /** Its title, without those of the suites around it; for pytest `test_name` with all its cases, or `test_name[case]`. */
  test: string
}

export type Testimony = { end: 'passed' } | { end: 'failed'; why: string } | { end: 'skipped'; why: string }

/** Runs one test in the tree at `root`. @throws Error where it is no witness, see `hearAll` */
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
 * Runs tests of one file in the tree at `root` by the runner of `npm test`, against the services that this process has in its
 * environment.
 * @param python runs the tests of pytest, which may be of different trees; null is a new process for them
 * @throws Error where one is no witness: there is none of its title, its file does not load, a hook failed, time was over
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
        fileTimeoutMs: FILE_LIMIT_MS,
        signal,
        print,
      })
  return testimoniesOf({ file, tests }, results, printed.join(''))
}

/** Of the results of a run that was asked for these tests. @throws Error, see `hearAll` */
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
  // Where a whole suite is skipped, its tests are not named.
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
    timeoutMs: FILE_LIMIT_MS,
    signal,
    print: (line) => print(`${line}\n`),
    ...(warm === null ? {} : { runPython: (input) => warm.run(input) }),
  })
}
