import type { StepRewardRecipe } from '../../contracts/recipe.types.ts'
import { groupAdvantages } from './group-selection.ts'

/** The facts about one turn that its reward depends on. */
export interface TurnFacts {
  /** The reply contained no runnable command. */
  formatError: boolean
  /** A limit ended the command: time, output or processes. */
  stopped: boolean
}

/** Returns the reward of each turn on its own, which is never above 0. */
export function stepRewards(turns: readonly TurnFacts[], { formatError, stoppedCommand }: StepRewardRecipe): number[] {
  return turns.map((turn) => (turn.formatError ? formatError : 0) + (turn.stopped ? stoppedCommand : 0))
}

/** Sums of equal rewards can differ by this much if they are added in another order. */
const ROUNDING = 1e-9

export interface StepAdvantagesInput {
  /** The rewards of its turns, for each valid sibling. */
  rewards: readonly (readonly number[])[]
  delta: number
  /** @default groupStd */
  scale?: 'groupStd' | 'none'
}

/**
 * Returns the advantage of each turn over the same turn of its siblings. With G as the sum of the rewards of a turn and all later ones,
 * it is (G − mean) / (std + delta) over the siblings that have a turn with that index, and 0 if there is only one or all agree.
 * @see GiGPO, arXiv 2505.10978 eq. 7: undiscounted, with the turn's index in place of the anchor state, which records lack
 */
export function stepAdvantages({ rewards, delta, scale = 'groupStd' }: StepAdvantagesInput): number[][] {
  const returns = rewards.map(returnsOf)
  const longest = Math.max(0, ...returns.map((one) => one.length))
  const advantages: number[][] = returns.map((one) => one.map(() => 0))
  for (let turn = 0; turn < longest; turn++) {
    const alive = returns.flatMap((one, member) => (turn < one.length ? [{ member, value: one[turn] ?? 0 }] : []))
    const values = alive.map(({ value }) => value)
    if (doAgree(values)) continue
    const compared = groupAdvantages({ rewards: values, delta, scale })
    for (const [at, { member }] of alive.entries()) (advantages[member] ?? [])[turn] = compared[at] ?? 0
  }
  return advantages
}

/** A single value agrees with itself. */
function doAgree(values: readonly number[]): boolean {
  return Math.max(...values) - Math.min(...values) < ROUNDING
}

/** Returns the return of each turn: its reward plus those of all later turns. */
function returnsOf(rewards: readonly number[]): number[] {
  const result = [...rewards]
  for (let turn = result.length - 2; turn >= 0; turn--) result[turn] = (result[turn] ?? 0) + (result[turn + 1] ?? 0)
  return result
}
