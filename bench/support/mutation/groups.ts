/** Tells Stryker's processes which test files to load. */
export const TESTS_VARIABLE = 'LONGHAUL_MUTATION_TESTS'

/** Files that are mutated together. Instrumented code is ten times slower, so kernels that are called millions of times form their
 *  own groups. */
export interface MutationGroup {
  folder: MutatedFolder
  /** Paths relative to the root. */
  files: string[]
  /** Glob of the test files that run against the mutants, relative to the root. */
  tests: string
}

/**
 * The unit tests that run against mutants. Simulations of a thousand evaluations are left out: one run of them takes as long as
 * hundreds of mutants.
 */
export const TEST_FILES = 'src/{domain,scaffold,grading}/**/!(*-simulation).test.ts'

export const MUTATED_FOLDERS = ['src/domain', 'src/scaffold', 'src/grading'] as const
export type MutatedFolder = (typeof MUTATED_FOLDERS)[number]

/** Data that a program generated from the harness's own package, whose hash it names: a mutant of it is another package. */
const GENERATED = new Set(['src/grading/profiles/swebench-4.1-commands.ts'])

/** Every resampling in any test reaches the kernels, so only the tests about kernels run against their mutants. */
const KERNEL_TESTS =
  'src/domain/{.,statistics,rewards}/{bootstrap,statistics,reference-statistics,score-interval,ordering,advantages,task-difficulty,power-hint}.test.ts'

export const KERNELS: readonly (readonly string[])[] = [
  ['statistics/bootstrap'],
  ['statistics/special-functions', 'statistics/proportions'],
  ['statistics/score-interval', 'statistics/statistics', 'hash-order'],
].map((names) => names.map((name) => `src/domain/${name}.ts`))

/** @param files every source file of the folders, without tests */
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
