import { type HashText, orderByHash } from '../hash-order.ts'

/** Valid rollouts of one task so far; an infra episode is not an attempt. */
export interface TaskRecord {
  taskId: string
  resolved: number
  attempts: number
}

export interface ReselectInput {
  pool: readonly string[]
  records: readonly TaskRecord[]
  rule: { dropSuccessAtLeast: number; dropNeverSolved: boolean; unseen: 'keep' | 'drop' }
}

export interface Reselection {
  kept: string[]
  dropped: { taskId: string; reason: 'solved-often' | 'never-solved' | 'unseen' }[]
}

/** Selects the harder pool of a later stage. Success means that the tests passed, pooled over every rollout of the earlier stage. */
export function reselectPool({ pool, records, rule }: ReselectInput): Reselection {
  const recordOf = new Map(records.map((record) => [record.taskId, record]))
  const limit = asFraction(rule.dropSuccessAtLeast)
  const result: Reselection = { kept: [], dropped: [] }
  for (const taskId of pool) {
    const reason = dropReason(recordOf.get(taskId), limit, rule)
    if (reason === null) result.kept.push(taskId)
    else result.dropped.push({ taskId, reason })
  }
  return result
}

function dropReason(
  record: TaskRecord | undefined,
  limit: Fraction,
  rule: ReselectInput['rule'],
): Reselection['dropped'][number]['reason'] | null {
  if (record === undefined || record.attempts === 0) return rule.unseen === 'drop' ? 'unseen' : null
  if (record.resolved === 0) return rule.dropNeverSolved ? 'never-solved' : null
  return limit.denominator * record.resolved >= limit.numerator * record.attempts ? 'solved-often' : null
}

interface Fraction {
  numerator: number
  denominator: number
}

const LARGEST_DENOMINATOR = 20
/** "0.6667" in a recipe means two thirds. Four digits never differ from the fraction by more than this. */
const ROUNDING = 5.01e-5

/** Fractions are compared as integers, because 2 of 3 must count as two thirds however the recipe rounds it. */
function asFraction(rate: number): Fraction {
  for (let denominator = 1; denominator <= LARGEST_DENOMINATOR; denominator++) {
    const numerator = Math.round(rate * denominator)
    if (Math.abs(numerator / denominator - rate) < ROUNDING) return { numerator, denominator }
  }
  return { numerator: rate, denominator: 1 }
}

/** The tasks from which a stage draws its problems, and those that its rule excluded. */
export interface StagePool extends Reselection {
  schema: 'longhaul.pool/1'
  run: string
  stage: string
  over: string
}

export interface DrawProblemsInput {
  /** Task ids of the stage's pool, without repetition. */
  pool: readonly string[]
  recipeSeed: number
  stage: string
  /** From 1. */
  iteration: number
  /** Problems per iteration. A smaller pool is drawn completely every time. */
  count: number
  hash: HashText
}

/**
 * Draws the problems of one iteration: the pool is shuffled by hash, handed out without replacement, and shuffled again for the next
 * pass. A task never appears twice in one iteration. If an iteration spans two passes, a task that it already contains moves to the
 * front of the queue for the next iteration.
 */
export function drawProblems({ iteration, ...input }: DrawProblemsInput): string[] {
  const passes = shuffledPasses(input)
  let drawn: string[] = []
  let held: string[] = []
  for (let at = 1; at <= iteration; at++) ({ drawn, held } = drawOnce({ ...input, passes, held }))
  return drawn
}

interface Draw {
  pool: readonly string[]
  count: number
  passes: Iterator<string, never>
  /** Tasks of the open pass that an earlier iteration had to skip, in order. */
  held: readonly string[]
}

function drawOnce({ pool, count, passes, held }: Draw): { drawn: string[]; held: string[] } {
  const size = Math.min(count, pool.length)
  // Always fewer than `size`: an iteration skips only tasks that it has drawn before.
  const drawn = new Set(held)
  const left: string[] = []
  while (drawn.size < size) {
    const task = passes.next().value
    if (drawn.has(task)) left.push(task)
    else drawn.add(task)
  }
  return { drawn: [...drawn], held: left }
}

/** Yields the pool endlessly, each pass in its own order. */
function* shuffledPasses({
  pool,
  recipeSeed,
  stage,
  hash,
}: Omit<DrawProblemsInput, 'iteration'>): Generator<string, never> {
  for (let pass = 0; ; pass++) {
    yield* orderByHash({ items: pool, material: (task) => `${recipeSeed}/${stage}/pass/${pass}/${task}`, hash })
  }
}
