/**
 * `npm test`: set-up, unit tests, one stack for the whole-system tests, the trainer's tests, then everything that was started
 * is stopped. Arguments are files or globs to run instead of all (`trainer` or a file below it for pytest); `--no-stack` runs
 * them without set-up and stack; `--temporal postgres` gives the stack another store (`longhaul up --help`).
 *
 * A test file passes only if its process ran all of its tests and hooks to the end, and says so. What was skipped is printed with
 * its reason and must stand in `reviewed-skips.ts`. Ends with `N passed, N failed[, N skipped]`; exit 0, 1 (something failed),
 * 2 (nothing could be tested) or 130.
 */
import { glob, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

import { toLonghaulError } from '../src/contracts/errors.ts'
import { clearDeadStacks } from './support/chaos/dead-stacks.ts'
import { startStack, type RunningStack } from './support/start-stack.ts'
import { findOrMakePython } from '../src/stack/setup/set-up.ts'
import { REVIEWED_SKIPS } from './reviewed-skips.ts'
import type { FileResult } from './support/runner/file-result.ts'
import { endLeftovers } from './support/runner/leftovers.ts'
import { findTestFiles, runTestFiles } from './support/runner/run-test-files.ts'
import { offerTestPackages } from './support/runner/trainer-test-packages.ts'
import { runTrainerTests } from './support/runner/run-trainer-tests.ts'
import { summarise } from './support/runner/summarise.ts'
import { APART_GLOBS, LONG_UNITS, TEST_GLOBS } from './support/runner/test-globs.ts'

/** Only a file that hangs takes as long: the slowest needs five minutes on two idle cores, and others may load them. */
const FILE_TIMEOUT_MS = 20 * 60_000
const TRAINER_TIMEOUT_MS = 60 * 60_000

const HOME_PREFIX = 'longhaul-test-'

const root = join(import.meta.dirname, '..')
const { values, positionals: chosen } = parseArgs({
  options: { 'no-stack': { type: 'boolean', default: false }, temporal: { type: 'string' } },
  allowPositionals: true,
})
const interrupt = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt.abort(new Error(signal)))

process.exitCode = await main()

async function main(): Promise<number> {
  const results: FileResult[] = []
  const problem = await runAll(results).catch((error: unknown) => toLonghaulError(error).message)
  const { text, exitCode } = summarise(results, REVIEWED_SKIPS)
  if (problem !== null && !interrupt.signal.aborted) console.error(problem)
  console.log(text)
  if (interrupt.signal.aborted) return 130
  return problem === null ? exitCode : 2
}

/** Adds a result for each file. @returns null, or why not everything could be run or taken down */
async function runAll(results: FileResult[]): Promise<string | null> {
  if (process.env['NODE_OPTIONS']?.includes('--test') === true) {
    return `Expected NODE_OPTIONS without options of the test runner, which choose tests; got ${process.env['NODE_OPTIONS']}`
  }
  const isTrainer = (path: string): boolean => path === 'trainer' || path.startsWith('trainer/')
  const trainerPaths = chosen.length === 0 ? ['trainer'] : chosen.filter(isTrainer)
  const patterns = chosen.filter((path) => !isTrainer(path))
  const batches =
    chosen.length === 0 ? await allBatches() : [patterns.length === 0 ? [] : await findTestFiles(root, patterns)]

  // Of runs that were killed themselves: engines of their tests outlive them.
  for await (const earlier of glob(join(tmpdir(), `${HOME_PREFIX}*`, 'tmp-*'))) {
    await clearDeadStacks({ root: earlier, say: console.error })
  }
  const home = await mkdtemp(join(tmpdir(), HOME_PREFIX))
  // What a test forgets lies below this folder, and goes with it.
  const scratch = await mkdtemp(join(home, 'tmp-'))
  let stack: RunningStack | null = null
  try {
    if (!values['no-stack']) {
      console.error('test    set-up and a stack of its own')
      const { temporal } = values
      stack = await startStack({ name: `test-${process.pid}`, home, temporal, signal: interrupt.signal })
      Object.assign(process.env, stack.environment)
    }
    process.env['TMPDIR'] = scratch
    // Each file is a process, and most load the same modules: the first one compiles them. Copies of the tree that tests make
    // would only fill a person's own cache.
    process.env['NODE_COMPILE_CACHE'] = await mkdtemp(join(home, 'compiled-'))
    // What several files make alike, such as a tiny policy: the first one makes it.
    process.env['LONGHAUL_TEST_SHARED'] = await mkdtemp(join(home, 'shared-'))
    const timed = async (name: string, work: Promise<void>): Promise<void> => {
      const started = Date.now()
      await work
      console.error(`test    ${name}: ${((Date.now() - started) / 1000).toFixed(0)} s`)
    }
    const runFiles = async (files: string[], lane = 0): Promise<void> => {
      const areUnits = files.every((file) => !file.startsWith('test'))
      const found = await runTestFiles({
        root,
        files,
        // Whole-system tests share one stack and two cores: side by side they would wait for each other, and see each other's
        // containers. Those that bring their own parts are a second lane.
        // Units that start trainers, engines and commands wait more than they compute.
        concurrency: areUnits ? 2 * availableParallelism() : 1,
        live: !areUnits && lane === 0,
        fileTimeoutMs: FILE_TIMEOUT_MS,
        signal: interrupt.signal,
        print: (text) => process.stdout.write(text),
      })
      results.push(...found)
    }
    const runTrainer = async (): Promise<void> => {
      if (trainerPaths.length === 0 || interrupt.signal.aborted) return
      const python = process.env['LONGHAUL_PYTHON'] ?? (await findOrMakePython())
      await offerTestPackages({ root, signal: interrupt.signal })
      const input = { root, paths: trainerPaths, scratch, python, timeoutMs: TRAINER_TIMEOUT_MS }
      const print = (line: string): void => console.log(`trainer | ${line}`)
      results.push(...(await runTrainerTests({ ...input, signal: interrupt.signal, print })))
    }
    const [first = [], ...others] = batches
    await timed(chosen.length === 0 ? 'units' : 'chosen files', runFiles(first))
    // The trainer's tests need one core and nothing of the stack; whole-system tests mostly wait. None that fails may leave the
    // others running while the stack is taken down.
    const ends = await Promise.allSettled([
      ...others.map((files, lane) => timed(lane === 0 ? 'on the stack' : 'beside it', runFiles(files, lane))),
      timed('trainer', runTrainer()),
    ])
    const broken = ends.find((end) => end.status === 'rejected')
    if (broken !== undefined) throw broken.reason
    return null
  } finally {
    await stack?.stop()
    await sweep(scratch, { hasStack: stack !== null })
    await rm(home, { recursive: true, force: true })
  }
}

/**
 * Takes away what tests of this run left: processes, wherever they put themselves, and engines. Without a stack of ours a test may have
 * started the engine that other stacks of the machine share, so processes are then left alone.
 */
async function sweep(scratch: string, { hasStack }: { hasStack: boolean }): Promise<void> {
  const left = hasStack ? await endLeftovers(scratch) : []
  for (const { pid, command } of left) console.error(`test    ended what a test left: ${pid} ${command}`)
  await clearDeadStacks({ root: scratch, say: console.error })
}

/** Units first, then the system's files in two lanes. */
async function allBatches(): Promise<string[][]> {
  const [long, units, system, apart] = await Promise.all(
    [LONG_UNITS, TEST_GLOBS.units, TEST_GLOBS.system, APART_GLOBS].map((patterns) => findTestFiles(root, patterns)),
  )
  const ordered = new Set([...(long ?? []), ...(units ?? [])])
  return [[...ordered], (system ?? []).filter((file) => apart?.includes(file) !== true), apart ?? []]
}
