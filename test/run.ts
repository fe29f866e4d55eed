/**
 * Runs the tests: set-up and one stack; all test files and the trainer's tests, as many at once as fill the processors
 * (`play-jobs.ts`); then everything that was started is stopped.
 *
 *   npm test [-- FILE…] [-- --no-stack] [-- --temporal postgres] [-- --costs]
 *
 * Files or globs are run instead of all (`trainer` or a file below it for pytest). `--no-stack` runs them without set-up and stack,
 * `--temporal postgres` gives the stack another store (`longhaul up --help`), `--costs` keeps what each file took, by which later
 * runs are ordered.
 *
 * A test file passes only if its process ran all of its tests and hooks to the end, and says so. What was skipped is printed with
 * its reason and must stand in `reviewed-skips.ts`. Ends with `N passed, N failed[, N skipped]`; exit 0, 1 (something failed),
 * 2 (nothing could be tested) or 130.
 */
import { glob, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'

import { benchArguments } from '../bench/support/arguments.ts'
import { toLonghaulError } from '../src/contracts/errors.ts'
import { abortOnInterrupt } from '../src/platform/interrupts.ts'
import { clearDeadStacks } from './support/chaos/dead-stacks.ts'
import { startStack, type RunningStack } from './support/start-stack.ts'
import { findOrMakePython } from '../src/stack/setup/set-up.ts'
import { REVIEWED_SKIPS } from './reviewed-skips.ts'
import { keepCosts, readCosts, TRAINER_JOB } from './support/runner/file-costs.ts'
import type { FileResult } from './support/runner/file-result.ts'
import { endLeftovers } from './support/runner/leftovers.ts'
import { failureOfRun, unmountLeft } from './support/runner/left-mounts.ts'
import { type Job, playJobs } from './support/runner/play-jobs.ts'
import { FILE_LIMIT_MS } from './support/hang.ts'
import { findTestFiles, runTestFiles } from './support/runner/run-test-files.ts'
import { offerTestPackages } from './support/runner/trainer-test-packages.ts'
import { runTrainerTests } from './support/runner/run-trainer-tests.ts'
import { summarise } from './support/runner/summarise.ts'
import { HOLDERS, TEST_GLOBS } from './support/runner/test-globs.ts'

const TRAINER_TIMEOUT_MS = 80 * 60_000

/** Of chosen units: those that start trainers, engines and commands wait more than they compute. */
const UNITS_AT_ONCE = 2 * availableParallelism() - 1

const HOME_PREFIX = 'longhaul-test-'

const root = join(import.meta.dirname, '..')
const { values, positionals: chosen } = benchArguments(
  {
    options: {
      'no-stack': { type: 'boolean', default: false },
      temporal: { type: 'string' },
      costs: { type: 'boolean', default: false },
    },
    allowPositionals: true,
  },
  2,
)
const interrupt = abortOnInterrupt((signal) => new Error(signal))

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

/** Adds a result for each file, and for what could not be taken down. @returns null, or why not everything could be run */
async function runAll(results: FileResult[]): Promise<string | null> {
  if (process.env['NODE_OPTIONS']?.includes('--test') === true) {
    return `Expected NODE_OPTIONS without options of the test runner, which choose tests; got ${process.env['NODE_OPTIONS']}`
  }
  if (values.costs && chosen.length > 0) return 'Expected --costs without files: it keeps what a whole run took'
  const isTrainer = (path: string): boolean => path === 'trainer' || path.startsWith('trainer/')
  const trainerPaths = chosen.length === 0 ? ['trainer'] : chosen.filter(isTrainer)
  const patterns = chosen.filter((path) => !isTrainer(path))
  const chosenFiles = patterns.length === 0 ? [] : await findTestFiles(root, patterns)
  const costOf = await readCosts(root)

  // Of runs that were killed themselves: engines of their tests outlive them.
  for await (const earlier of glob(join(tmpdir(), `${HOME_PREFIX}*`, 'tmp-*'))) {
    // A run that ends at this moment takes its folder away itself.
    await clearDeadStacks({ root: earlier, say: console.error }).catch((error: unknown) =>
      console.error(`test    what an earlier run left in ${earlier} stays: ${toLonghaulError(error).message}`),
    )
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
    const timed = async (name: string, work: Promise<void>): Promise<number> => {
      const [started, before] = [Date.now(), usedAndPassedMs()]
      await work
      const [seconds, after] = [(Date.now() - started) / 1000, usedAndPassedMs()]
      const busy = (after.used - before.used) / Math.max(after.passed - before.passed, 1)
      console.error(`test    ${name}: ${seconds.toFixed(0)} s, processors ${(100 * busy).toFixed(0)} % busy`)
      return seconds
    }
    const runFiles = async (files: string[], options: { concurrency?: number; live?: boolean } = {}): Promise<void> => {
      const { concurrency = 1, live = concurrency === 1 } = options
      const found = await runTestFiles({
        root,
        files,
        concurrency,
        live,
        fileTimeoutMs: FILE_LIMIT_MS,
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
    if (chosen.length === 0) {
      let trainerSeconds = 0
      const trainer = async (): Promise<void> => {
        trainerSeconds = await timed('trainer', runTrainer())
      }
      const jobs = (await holdersOfFiles()).map(([file, holds]): Job => {
        const run = (): Promise<void> => runFiles([file], { live: holds === 'stack' })
        return { name: file, holds, cost: costOf(file), run }
      })
      jobs.push({ name: TRAINER_JOB, cost: costOf(TRAINER_JOB), run: trainer })
      await timed('all files', playJobs({ jobs, cores: availableParallelism(), signal: interrupt.signal }))
      if (values.costs && !interrupt.signal.aborted) await keepCosts(root, { results, trainerSeconds })
    } else {
      const areUnits = chosenFiles.every((file) => !file.startsWith('test'))
      await timed('chosen files', runFiles(chosenFiles, areUnits ? { concurrency: UNITS_AT_ONCE } : {}))
      await timed('trainer', runTrainer())
    }
    return null
  } finally {
    results.push(...(await takeDown({ stack, scratch, home })))
  }
}

/**
 * Stops the stack and takes away what tests of this run left: processes, wherever they put themselves, engines, mounts. Without a stack
 * of ours a test may have started the engine that other stacks of the machine share, so processes are then left alone.
 * @returns a failure for what a test may not leave and for what could not be taken away: neither undoes what was tested
 */
async function takeDown(input: { stack: RunningStack | null; scratch: string; home: string }): Promise<FileResult[]> {
  const { stack, scratch, home } = input
  const found: FileResult[] = []
  const steps: (() => Promise<unknown>)[] = [
    async () => stack?.stop(),
    async () => {
      const left = stack === null ? [] : await endLeftovers(scratch)
      for (const { pid, command } of left) console.error(`test    ended what a test left: ${pid} ${command}`)
    },
    () => clearDeadStacks({ root: scratch, say: console.error }),
    async () => found.push(...(await unmountLeft(scratch))),
    () => rm(home, { recursive: true, force: true }),
  ]
  for (const step of steps)
    await step().catch((error: unknown) => found.push(failureOfRun(toLonghaulError(error).message)))
  return found
}

/** Every test file, with what it holds while it runs. */
async function holdersOfFiles(): Promise<[file: string, holds: string | undefined][]> {
  const holders = new Map<string, string>()
  for (const [held, patterns] of Object.entries(HOLDERS)) {
    for (const file of await findTestFiles(root, patterns)) holders.set(file, held)
  }
  const files = await findTestFiles(root, [...TEST_GLOBS.units, ...TEST_GLOBS.system])
  return files.map((file) => [file, holders.get(file)])
}

/** Of all processors, by every process of the machine: what waits shows as time that passed and was not used. */
function usedAndPassedMs(): { used: number; passed: number } {
  const times = cpus().map((one) => one.times)
  const passed = times.reduce((sum, { user, nice, sys, idle, irq }) => sum + user + nice + sys + idle + irq, 0)
  return { passed, used: passed - times.reduce((sum, { idle }) => sum + idle, 0) }
}
