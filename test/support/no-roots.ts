import type { RootRegistry } from '../../src/activities/run/play-alone.ts'

/** A server on which no root is open. */
export const NO_ROOTS: RootRegistry = { isPlaying: async () => false, findListed: async () => null }
