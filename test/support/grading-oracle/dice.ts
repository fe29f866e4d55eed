import { seededRandom } from '../../../src/domain/statistics/bootstrap.ts'

/** Random choices that a seed reproduces. */
export interface Dice {
  /** True with probability `share`. */
  chance(share: number): boolean
  /** From 0 to below `bound`. */
  below(bound: number): number
  pick<T>(choices: readonly [T, ...T[]] | readonly T[]): T
  /** Calls `make` `count` times. */
  times<T>(count: number, make: () => T): T[]
}

export function createDice(seed: number): Dice {
  const random = seededRandom(seed)
  const below = (bound: number): number => Math.floor(random() * bound)
  return {
    chance: (share) => random() < share,
    below,
    pick: (choices) => choices[below(choices.length)] as (typeof choices)[number],
    times: (count, make) => Array.from({ length: count }, make),
  }
}
