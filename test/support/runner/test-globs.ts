/** Where `npm test` finds its files; what `test-globs.test.ts` finds elsewhere would never run. */
export const TEST_GLOBS = {
  units: ['src/**/*.test.ts', 'policies/**/*.test.ts'],
  system: ['test/**/*.test.ts'],
} as const
