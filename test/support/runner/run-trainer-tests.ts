import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

import { runCommand, type RunCommandInput } from '../../../src/platform/run-command.ts'
import type { FileResult } from './file-result.ts'
import { judgePytest, type PytestEnd, type PytestEvent } from './judge-pytest.ts'

export interface RunTrainerTestsInput {
  root: string
  /** What pytest is asked for, relative to `root`. @default all tests of the trainer */
  paths?: readonly string[]
  /** @default the trainer's */
  config?: string
  /** A folder for the record of events. */
  scratch: string
  /** An interpreter with the trainer's packages. */
  python: string
  /** Also what is marked slow: every kill point with several ranks. */
  isFull?: boolean
  /** File to which each kill of several ranks adds a line of JSON: what was struck, how it ended, what recovery cost. */
  strikes?: string
  timeoutMs: number
  signal?: AbortSignal
  /** A line of pytest's. @default to stdout */
  print?: (line: string) => void
  /** How the interpreter is run. @default as a new process */
  runPython?: (input: RunCommandInput) => Promise<PytestEnd>
}

const OPTIONS = ['-q', '-p', 'no:cacheprovider', '-p', 'pytest_events']

/** The tests of `trainer/` by pytest. */
export async function runTrainerTests({
  root,
  paths = ['trainer'],
  config = join(root, 'trainer/pyproject.toml'),
  scratch,
  python,
  isFull = false,
  strikes,
  timeoutMs,
  signal,
  print = console.log,
  runPython = runCommand,
}: RunTrainerTestsInput): Promise<FileResult[]> {
  const record = join(scratch, `pytest-${process.pid}.jsonl`)
  // The later -m wins over the one in pyproject.toml.
  const marked = isFull ? ['-m', ''] : []
  const end = await runPython({
    command: python,
    args: ['-m', 'pytest', ...paths, ...OPTIONS, '-c', config, `--rootdir=${join(root, 'trainer')}`, ...marked],
    cwd: root,
    env: {
      ...process.env,
      // The package is not installed in the environment; `npm test` would find it, this alone would not.
      PYTHONPATH: `${join(root, 'trainer')}:${import.meta.dirname}`,
      LONGHAUL_PYTEST_EVENTS: record,
      ...(strikes === undefined ? {} : { LONGHAUL_KILLS_RESULT: strikes }),
    },
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
    onLine: print,
  })
  // An interpreter that could not even begin wrote nothing: that is a failure too.
  const lines = (await readFile(record, 'utf8').catch(() => '')).split('\n').filter((line) => line !== '')
  return judgePytest({ events: lines.map((line) => JSON.parse(line) as PytestEvent), end })
}
