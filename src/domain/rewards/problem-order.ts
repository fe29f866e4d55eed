import { orderByHash, type HashText } from '../hash-order.ts'

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
  const drawn = new Set(held.slice(0, size))
  const left = held.slice(size)
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
