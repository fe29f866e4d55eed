/** The matrix fault × phase, and which of its cells a seed plays. */
import { randomFrom } from '../../../src/adapters/datasets/synthetic/random.ts'
import { type Fault, FAULTS } from './faults.ts'
import { EPISODE_PHASES, type Phase, TRAINING_PHASES } from './phases.ts'

export interface Cell {
  fault: Fault
  phase: Phase
  /** Strikes at the n-th visit of the phase, from 1. */
  count: number
}

export interface SeedPlan {
  seed: number
  kind: 'evaluation' | 'training'
  /** One after the other in one run. */
  cells: Cell[]
}

/** Every so many seeds one trains: such a run takes twice as long. */
const TRAINING_EVERY = 5

export function planSeed(seed: number, faults: readonly Fault[] = FAULTS): SeedPlan {
  const random = randomFrom(`chaos/${seed}`)
  const training = cellsOf(faults, TRAINING_PHASES)
  const episodes = cellsOf(faults, EPISODE_PHASES)
  const trains = training.length > 0 && (seed % TRAINING_EVERY === 0 || episodes.length === 0)
  if (trains) {
    const turn = episodes.length === 0 ? seed : Math.floor(seed / TRAINING_EVERY)
    const chosen = training[turn % training.length]
    return { seed, kind: 'training', cells: chosen === undefined ? [] : [cellOf(chosen, 1)] }
  }
  // Seeds in a row walk through the whole list, two cells at a time.
  const [alone, paired] = [episodes.filter(([{ isAlone }]) => isAlone), episodes.filter(([{ isAlone }]) => !isAlone)]
  const runs = [...alone.map((cell) => [cell]), ...inPairs(paired)]
  const place = seed - Math.ceil(seed / TRAINING_EVERY)
  const chosen = shuffled(runs)[(training.length > 0 ? place : seed) % runs.length] ?? []
  // The earlier phase first, and the second fault at once: episodes must be left for it.
  const ordered = chosen.toSorted(
    ([, a], [, b]) => EPISODE_PHASES.indexOf(a as never) - EPISODE_PHASES.indexOf(b as never),
  )
  const first = 1 + random.below(chosen.length === 1 ? 3 : 2)
  return { seed, kind: 'evaluation', cells: ordered.map((pair, index) => cellOf(pair, index === 0 ? first : 1)) }
}

function cellOf([fault, phase]: [Fault, Phase], count: number): Cell {
  // A second host may get no more than one episode.
  return { fault, phase, count: fault.needsSecondHost === true ? 1 : count }
}

/** Every pair fault × phase that applies. */
export function cellsOf(faults: readonly Fault[], phases: readonly Phase[]): [Fault, Phase][] {
  return faults.flatMap((fault) =>
    phases.filter((phase) => fault.phases.includes(phase)).map((phase): [Fault, Phase] => [fault, phase]),
  )
}

/** The second of a pair comes from the other half, so that the two are seldom of one kind. */
function inPairs<T>(items: readonly T[]): T[][] {
  const half = Math.ceil(items.length / 2)
  return items.slice(0, half).map((item, index) => [item, ...items.slice(half + index, half + index + 1)])
}

/** Always in the same order. */
function shuffled<T>(items: readonly T[]): T[] {
  return randomFrom('chaos/order').sample(items, items.length)
}
