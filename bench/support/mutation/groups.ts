/** Tells Stryker's processes which test files to load. */
export const TESTS_VARIABLE = 'LONGHAUL_MUTATION_TESTS'

/** What is mutated together. Code that is instrumented is ten times slower, so the kernels that millions of calls reach go apart. */
export interface MutationGroup {
  folder: MutatedFolder
  /** Files below the root. */
  files: string[]
  /** Which test files see the mutants, as a pattern below the root. */
  tests: string
}

/**
 * The unit tests that mutants are shown to. Simulations of a thousand evaluations are left out: one run of them takes as long as
 * hundreds of mutants.
 */
export const TEST_FILES = 'src/{domain,scaffold,grading}/**/!(*-simulation).test.ts'

export const MUTATED_FOLDERS = ['src/domain', 'src/scaffold', 'src/grading'] as const
export type MutatedFolder = (typeof MUTATED_FOLDERS)[number]

/** Data that a program wrote from the harness's own package, whose hash it names: a mutant of it is another package. */
const GENERATED = new Set(['src/grading/profiles/swebench-4.1-commands.ts'])

/** Every resampling of every other test reaches the kernels, so their mutants see the tests that are about them. */
const KERNEL_TESTS =
  'src/domain/{.,statistics,rewards}/{bootstrap,moments,statistics,reference-statistics,score-interval,ordering,advantages,task-difficulty,power-hint}.test.ts'

const KERNELS = [
  ['statistics/bootstrap', 'statistics/random', 'statistics/moments'],
  ['statistics/special-functions', 'statistics/proportions', 'statistics/mcnemar'],
  ['statistics/score-interval', 'statistics/statistics', 'hash-order'],
].map((names) => names.map((name) => `src/domain/${name}.ts`))

/** @param files every source file of the folders, tests left out */
export function groupFiles(files: readonly string[]): MutationGroup[] {
  const wanted = files.filter((file) => !GENERATED.has(file))
  const kernels = new Set(KERNELS.flat())
  return MUTATED_FOLDERS.flatMap((folder) => {
    const inFolder = wanted.filter((file) => file.startsWith(`${folder}/`))
    const others = { folder, files: inFolder.filter((file) => !kernels.has(file)), tests: TEST_FILES }
    const parts = KERNELS.map((kernel) => {
      return { folder, files: inFolder.filter((file) => kernel.includes(file)), tests: KERNEL_TESTS }
    })
    return [others, ...parts].filter((group) => group.files.length > 0)
  })
}
