/** The matrix fault × phase, and the cells that a seed plays. */
import { randomFrom } from '../../../src/adapters/datasets/synthetic/compose.ts'
import { type Fault, FAULTS } from './faults.ts'
import { EPISODE_PHASES, type Phase, TRAINING_PHASES, type Visit } from './phases.ts'

export interface Cell {
  fault: Fault
  phase: Phase
  /** Which of the phase's visits is struck, as a share of the visits in the run without faults: 0 is the first, just below 1 the
   *  last. */
  nth: number
}

export interface SeedPlan {
  seed: number
  kind: 'evaluation' | 'training'
  /** Whether the rollout is played in parts. */
  inParts: boolean
  /** Played one after another in one run. */
  cells: Cell[]
}

/** One in this many seeds trains, because a training takes three times as long. */
const TRAINING_EVERY = 5

type Pair = [Fault, Phase]

export function planSeed(seed: number, faults: readonly Fault[] = FAULTS): SeedPlan {
  const random = randomFrom(`chaos/${seed}`)
  const [training, episodes] = [trainingRuns(faults), episodeRuns(faults)]
  const trains = training.length > 0 && (seed % TRAINING_EVERY === 0 || episodes.length === 0)
  // Consecutive seeds cover the whole list of either kind.
  const turn = trains
    ? Math.floor(episodes.length === 0 ? seed : seed / TRAINING_EVERY)
    : training.length > 0
      ? seed - Math.ceil(seed / TRAINING_EVERY)
      : seed
  const runs = trains ? training : episodes
  const chosen = runs[turn % runs.length] ?? []
  const kind = trains ? 'training' : 'evaluation'
  const cells = inOrder(chosen).map(([fault, phase]) => cellOf(fault, phase, random.unit()))
  return { seed, kind, inParts: chosen.some(needsParts), cells }
}

function cellOf(fault: Fault, phase: Phase, nth: number): Cell {
  // A second host may get no more than one episode.
  if (fault.needsSecondHost === true) return { fault, phase, nth: 0 }
  // In the first half of a run there may be no further part. A rollout that ends early leaves parts for the next fault.
  return { fault, phase, nth: fault.strikesPart === true ? 0.5 + nth / 2 : nth }
}

/** The earlier phase first, so that work is left for the second fault. */
function inOrder(pairs: readonly Pair[]): Pair[] {
  const places = [...EPISODE_PHASES, ...TRAINING_PHASES] as readonly Phase[]
  return pairs.toSorted(([, a], [, b]) => places.indexOf(a) - places.indexOf(b))
}

function episodeRuns(faults: readonly Fault[]): Pair[][] {
  return groupRuns(cellsOf(faults, EPISODE_PHASES).filter((pair) => !needsTraining(pair)))
}

function trainingRuns(faults: readonly Fault[]): Pair[][] {
  const own = cellsOf(faults, EPISODE_PHASES).filter(needsTraining)
  return groupRuns([...cellsOf(faults, TRAINING_PHASES), ...own])
}

function needsTraining([fault, phase]: Pair): boolean {
  return fault.needsTraining?.includes(phase) === true
}

function needsReplica([{ needsReplica: needed }]: Pair): boolean {
  return needed === true
}

export function needsParts([fault, phase]: Pair): boolean {
  return phase === 'parting' || fault.needsParts === true
}

/** Two cells per run. Faults that end a run or a host get a run of their own; faults after which the run is started again are grouped
 *  together, and so are those of parts and of replicas. */
function groupRuns(cells: readonly Pair[]): Pair[][] {
  const alone = cells.filter(([{ isAlone, limitsRun }]) => isAlone === true || limitsRun === true)
  const shared = cells.filter((cell) => !alone.includes(cell))
  const restarts = shared.filter(([{ expects }]) => expects === 'restarted')
  const others = shared.filter(([{ expects }]) => expects !== 'restarted')
  const kinds = [restarts, others].flatMap((cells) => [
    cells.filter(needsParts),
    cells.filter(needsReplica),
    cells.filter((cell) => !needsParts(cell) && !needsReplica(cell)),
  ])
  return shuffled([...alone.map((cell) => [cell]), ...kinds.flatMap(inPairs)])
}

/** Every applicable pair fault × phase. */
export function cellsOf(faults: readonly Fault[], phases: readonly Phase[]): Pair[] {
  return faults.flatMap((fault) =>
    phases.filter((phase) => fault.phases.includes(phase)).map((phase): Pair => [fault, phase]),
  )
}

/** The second cell of a pair comes from the other half, so that the two are seldom of one kind. */
function inPairs<T>(items: readonly T[]): T[][] {
  const half = Math.ceil(items.length / 2)
  return items.slice(0, half).map((item, index) => [item, ...items.slice(half + index, half + index + 1)])
}

/** Always in the same order. */
function shuffled<T>(items: readonly T[]): T[] {
  return randomFrom('chaos/order').sample(items, items.length)
}

/**
 * The visit of its phase that each cell strikes, counted from the end of the cell before it; every visit of the run without faults is
 * possible. A cell leaves room for the cells after it. @returns from 1
 */
export function visitCounts(cells: readonly Aimed[], undisturbed: readonly Visit[]): number[] {
  let from = 0
  return cells.map((cell, place) => {
    const { nth } = cell
    const rest = cells.slice(place + 1)
    const visits = undisturbed.flatMap((visit, index) => (index >= from && isAt(visit, cell) ? [index] : []))
    const leaving = visits.filter((index) => holdsInOrder(undisturbed.slice(index + 1), rest))
    const candidates = leaving.length > 0 ? leaving : visits
    const chosen = Math.min(candidates.length - 1, Math.floor(nth * candidates.length))
    from = (candidates[chosen] ?? from - 1) + 1
    return Math.max(1, visits.indexOf(candidates[chosen] ?? -1) + 1)
  })
}

type Aimed = Pick<Cell, 'phase' | 'nth'> & { fault: Pick<Fault, 'matches'> }

function isAt(visit: Visit, { phase, fault }: Aimed): boolean {
  return visit.phase === phase && fault.matches?.(visit) !== false
}

function holdsInOrder(visits: readonly Visit[], wanted: readonly Aimed[]): boolean {
  let at = 0
  for (const cell of wanted) {
    const found = visits.findIndex((visit, index) => index >= at && isAt(visit, cell))
    if (found === -1) return false
    at = found + 1
  }
  return true
}
