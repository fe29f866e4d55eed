/**
 * A test runner for StrykerJS that stays in its process: a mutant costs only the tests that reach it. A process for each test file,
 * as in the runner for TAP, costs a hundred times as much (docs/decisions/2026-11-22-mutants-run-in-one-process.md).
 *
 * A mutant that acts when its module loads needs its own modules: the test files that load it are loaded again for it.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { INSTRUMENTER_CONSTANTS, type InstrumenterContext } from '@stryker-mutator/api/core'
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin'
import {
  determineHitLimitReached,
  type DryRunResult,
  DryRunStatus,
  type MutantRunOptions,
  type MutantRunResult,
  MutantRunStatus,
  type TestResult,
  type TestRunner,
  TestStatus,
} from '@stryker-mutator/api/test-runner'
import { TEST_FILES, TESTS_VARIABLE } from './groups.ts'
import { createModuleGenerations, type Generation } from './module-generations.ts'

interface LoadedTest {
  id: string
  file: string
  name: string
  run: () => unknown
  /** Duration of its last run. */
  tookMs: number
}

/** Stryker's code in the mutated modules keeps a reference to this object. */
const context: InstrumenterContext = {}
Object.assign(globalThis, { [INSTRUMENTER_CONSTANTS.NAMESPACE]: context })

class InProcessRunner implements TestRunner {
  /** The folder of Stryker's copy. */
  readonly #root = process.cwd()
  readonly #modules = createModuleGenerations(this.#root)
  #generation = 0
  /** Tests that were loaded while no mutant was active. */
  #clean: LoadedTest[] | null = null
  #cleanGeneration = 0
  #hits: Hits | null = null

  capabilities(): { reloadEnvironment: boolean } {
    return { reloadEnvironment: true }
  }

  async dryRun(): Promise<DryRunResult> {
    const tests: TestResult[] = []
    try {
      for (const test of await this.#loadAll({ isCounting: true })) {
        context.currentTestId = test.id
        await runTest(test)
      }
      delete context.currentTestId
      writeFileSync(join(this.#root, HITS_FILE), JSON.stringify(context.mutantCoverage?.perTest ?? {}))
      // Measured again without counting, because mutants run without it and their time limits derive from these durations.
      for (const test of await this.#loadClean()) tests.push(await runTest(test))
    } catch (error) {
      return { status: DryRunStatus.Error, errorMessage: messageOf(error) }
    } finally {
      delete context.currentTestId
    }
    const { mutantCoverage } = context
    return { status: DryRunStatus.Complete, tests, ...(mutantCoverage === undefined ? {} : { mutantCoverage }) }
  }

  async mutantRun(options: MutantRunOptions): Promise<MutantRunResult> {
    const clean = await this.#loadClean()
    this.#hits ??= JSON.parse(readFileSync(join(this.#root, HITS_FILE), 'utf8')) as Hits
    try {
      if (options.mutantActivation === 'static') return await this.#runStatic(options, clean, this.#hits)
      const found = await runMutant(this.#nearest(clean, options), options, this.#hits)
      if (found.status === MutantRunStatus.Survived) return found
      // A test that also fails without the mutant was broken by an earlier mutant, so its failure proves nothing.
      delete context.activeMutant
      const killer = clean.find(({ id }) => found.status === MutantRunStatus.Killed && found.killedBy.includes(id))
      if (killer === undefined || (await runTest(killer)).status === TestStatus.Success) return found
      this.#clean = null
      return await runMutant(this.#nearest(await this.#loadClean(), options), options, this.#hits)
    } finally {
      delete context.activeMutant
      delete context.hitCount
      delete context.hitLimit
    }
  }

  async #loadClean(): Promise<LoadedTest[]> {
    if (this.#clean === null) {
      this.#clean = await this.#loadAll({ isCounting: false })
      this.#cleanGeneration = this.#generation
    }
    return this.#clean
  }

  async #loadAll({ isCounting }: { isCounting: boolean }): Promise<LoadedTest[]> {
    this.#generation += 1
    const loaded: LoadedTest[] = []
    for (const file of globSync(process.env[TESTS_VARIABLE] ?? TEST_FILES, { cwd: this.#root }).toSorted()) {
      loaded.push(...(await this.#load(file, { isCounting })))
    }
    return loaded
  }

  async #load(file: string, how: Omit<Generation, 'number'>): Promise<LoadedTest[]> {
    const tests = await this.#modules.load(join(this.#root, file), { number: this.#generation, ...how })
    return tests.map(({ name, run }, index) => ({ id: `${file}#${index}: ${name}`, file, name, run, tookMs: 0 }))
  }

  /** The tests that reach the mutant: nearest to its module first, and faster tests first at the same distance. */
  #nearest(tests: readonly LoadedTest[], { testFilter, sandboxFileName }: MutantRunOptions): LoadedTest[] {
    const wanted = testFilter === undefined ? null : new Set(testFilter)
    const distance = (test: LoadedTest): number => this.#modules.distance(join(this.#root, test.file), sandboxFileName)
    return tests
      .filter(({ id }) => wanted?.has(id) ?? true)
      .map((test) => ({ test, order: distance(test) }))
      .sort((a, b) => a.order - b.order || a.test.tookMs - b.test.tookMs)
      .map(({ test }) => test)
  }

  /** Every test file that loads the module may see the mutant: coverage cannot tell which of its tests do. */
  async #runStatic(options: MutantRunOptions, clean: readonly LoadedTest[], hits: Hits): Promise<MutantRunResult> {
    this.#generation += 1
    Object.assign(context, {
      activeMutant: options.activeMutant.id,
      hitCount: 0,
      hitLimit: options.hitLimit ?? Infinity,
    })
    const { testFilter: _reached, ...anywhere } = options
    const files = new Set(this.#nearest(clean, anywhere).map(({ file }) => file))
    const changed = { file: options.sandboxFileName, base: this.#cleanGeneration }
    let nrOfTests = 0
    for (const file of files) {
      if (this.#modules.distance(join(this.#root, file), options.sandboxFileName) === Infinity) continue
      let tests: LoadedTest[]
      try {
        tests = await this.#load(file, { isCounting: false, changed })
      } catch (error) {
        // A file that fails to load fails, as under `node --test`.
        const killedBy = clean.filter((test) => test.file === file).map(({ id }) => id)
        return { status: MutantRunStatus.Killed, killedBy, failureMessage: messageOf(error), nrOfTests }
      }
      const result = await runMutant(tests, options, hits)
      if (result.status !== MutantRunStatus.Survived) return result
      nrOfTests += result.nrOfTests
    }
    return { status: MutantRunStatus.Survived, nrOfTests }
  }
}

type Hits = Record<string, Record<string, number>>

/** File in which the process of the first run stores how often each test reached each mutant. */
const HITS_FILE = 'hits.json'

/** A mutant counts as endless if a test reaches it this much more often than the original. */
const ENDLESS = { factor: 20, atLeast: 10_000 }

/** Stops at the first test that fails or reaches the mutant endlessly. */
async function runMutant(
  tests: readonly LoadedTest[],
  { activeMutant }: MutantRunOptions,
  hits: Hits,
): Promise<MutantRunResult> {
  context.activeMutant = activeMutant.id
  let nrOfTests = 0
  for (const test of tests) {
    const hitLimit = Math.max(ENDLESS.atLeast, ENDLESS.factor * (hits[test.id]?.[activeMutant.id] ?? 0))
    Object.assign(context, { hitCount: 0, hitLimit })
    const result = await runTest(test)
    nrOfTests += 1
    const tooMany = determineHitLimitReached(context.hitCount, hitLimit)
    if (tooMany !== undefined) return { status: MutantRunStatus.Timeout, reason: tooMany.reason ?? 'too many rounds' }
    if (result.status === TestStatus.Failed) {
      const { failureMessage } = result
      return { status: MutantRunStatus.Killed, killedBy: [test.id], failureMessage, nrOfTests }
    }
  }
  return { status: MutantRunStatus.Survived, nrOfTests }
}

async function runTest(test: LoadedTest): Promise<TestResult> {
  const started = performance.now()
  const about = (): { id: string; name: string; fileName: string; timeSpentMs: number } => {
    test.tookMs = performance.now() - started
    return { id: test.id, name: test.name, fileName: test.file, timeSpentMs: test.tookMs }
  }
  try {
    await test.run()
    return { ...about(), status: TestStatus.Success }
  } catch (error) {
    return { ...about(), status: TestStatus.Failed, failureMessage: messageOf(error) }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'in-process', InProcessRunner)]
