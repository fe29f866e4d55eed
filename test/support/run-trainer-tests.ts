import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

import { runCommand } from '../../src/stack/run-command.ts'

export interface Counts {
  passed: number
  failed: number
}

export interface RunTrainerTestsInput {
  root: string
  /** A folder for the report. */
  scratch: string
  /** An interpreter with the trainer's packages. */
  python: string
  /** Also what is marked slow: every kill point with several ranks. */
  isFull?: boolean
  /** File to which each kill of several ranks adds a line of JSON: what was struck, how it ended, what recovery cost. */
  strikes?: string
  timeoutMs: number
  signal?: AbortSignal
}

/** The tests of `trainer/` by pytest, line by line on stdout. Tests that were skipped count as neither. */
export async function runTrainerTests({
  root,
  scratch,
  python,
  isFull = false,
  strikes,
  timeoutMs,
  signal,
}: RunTrainerTestsInput): Promise<Counts> {
  const report = join(scratch, 'pytest.xml')
  const { exitCode } = await runCommand({
    command: python,
    // The later -m wins over the one in pyproject.toml.
    args: [
      '-m',
      'pytest',
      'trainer',
      '-q',
      '-p',
      'no:cacheprovider',
      '--junitxml',
      report,
      ...(isFull ? ['-m', ''] : []),
    ],
    cwd: root,
    env: {
      ...process.env,
      // The package is not installed in the environment; `npm test` would find it, this alone would not.
      PYTHONPATH: join(root, 'trainer'),
      ...(strikes === undefined ? {} : { LONGHAUL_KILLS_RESULT: strikes }),
    },
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
    onLine: (line) => console.log(line),
  })
  const suite = /<testsuite [^>]*>/.exec(await readFile(report, 'utf8').catch(() => ''))?.[0] ?? ''
  const value = (name: string): number => Number(new RegExp(` ${name}="(\\d+)"`).exec(suite)?.[1] ?? 0)
  const failed = value('failures') + value('errors')
  // An interpreter that could not even collect wrote no report: that is a failure too.
  if (suite === '' || (exitCode !== 0 && failed === 0)) return { passed: 0, failed: 1 }
  return { passed: value('tests') - failed - value('skipped'), failed }
}
