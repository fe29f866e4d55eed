import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

import { runCommand, type RunCommandInput } from '../../../src/platform/run-command.ts'
import type { FileResult } from './file-result.ts'
import { judgePytest, type PytestEnd, type PytestEvent } from './judge-pytest.ts'

export interface RunTrainerTestsInput {
  root: string
  /** Arguments of pytest, relative to `root`. @default all tests of the trainer */
  paths?: readonly string[]
  /** @default the trainer's */
  config?: string
  /** A folder for the record of events. */
  scratch: string
  /** An interpreter with the trainer's packages. */
  python: string
  /** Includes tests marked as slow: every kill point with several ranks. */
  isFull?: boolean
  /** File to which each kill of several ranks adds a line of JSON: the target, the ending, and the cost of recovery. */
  strikes?: string
  timeoutMs: number
  signal?: AbortSignal
  /** Receives each line of pytest. @default to stdout */
  print?: (line: string) => void
  /** Runs the interpreter. @default as a new process */
  runPython?: (input: RunCommandInput) => Promise<PytestEnd>
}

const OPTIONS = ['-q', '-p', 'no:cacheprovider', '-p', 'pytest_events']

/** Runs the tests of `trainer/` with pytest. */
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
      // The package is not installed in the environment, so pytest needs its path.
      PYTHONPATH: `${join(root, 'trainer')}:${import.meta.dirname}`,
      LONGHAUL_PYTEST_EVENTS: record,
      ...(strikes === undefined ? {} : { LONGHAUL_KILLS_RESULT: strikes }),
    },
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
    onLine: print,
  })
  // An interpreter that could not start wrote nothing, which is a failure too.
  const lines = (await readFile(record, 'utf8').catch(() => '')).split('\n').filter((line) => line !== '')
  return judgePytest({ events: lines.map((line) => JSON.parse(line) as PytestEvent), end })
}
