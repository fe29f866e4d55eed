/** Where `npm test` finds its files; what `test-globs.test.ts` finds elsewhere would never run. */
export const TEST_GLOBS = {
  units: ['src/**/*.test.ts', 'policies/**/*.test.ts'],
  system: ['test/**/*.test.ts'],
} as const

/** Of the system's: files that use neither workers nor suites of the shared stack, so they run beside the files that do. */
export const APART_GLOBS = [
  'test/{architecture,bench,chaos,planted,replay,scripts,support,types,workflows}/**/*.test.ts',
  'test/integration/{docker-launcher,helm-install,leaks,kubernetes-sandbox,kubernetes-trainer,live-vllm,publish,scale,stalls,trackers,training-ends}.test.ts',
] as const

/** Units that take longest on two cores begin first: begun late, one of them would run on alone. */
export const LONG_UNITS = [
  'src/adapters/trainer-job/job/run-job.test.ts',
  'src/workers/launched-engines.test.ts',
  'src/activities/training/recipe-to-loss.test.ts',
  'src/workers/compose-trainer.test.ts',
  'src/adapters/trainer-job/launchers/slurm-launcher.test.ts',
] as const
