import { createHash } from 'node:crypto'

/** Reproducible choices: the same name gives the same sequence on every machine and Node version. */
export interface Random {
  /** Uniform in [0, 1). */
  unit(): number
  /** Uniform integer in [0, bound). */
  below(bound: number): number
  pick<T>(items: readonly T[]): T
  /** `count` different items in random order. */
  sample<T>(items: readonly T[], count: number): T[]
}

/** Generator sfc32 (public domain, period > 2^64), seeded with the SHA-256 of a name, so that neighbouring names share nothing. */
export function randomFrom(name: string): Random {
  const digest = createHash('sha256').update(name).digest()
  let a = digest.readInt32LE(0)
  let b = digest.readInt32LE(4)
  let c = digest.readInt32LE(8)
  let counter = digest.readInt32LE(12)

  const unit = (): number => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    c |= 0
    return (sum >>> 0) / 2 ** 32
  }
  const below = (bound: number): number => Math.floor(unit() * bound)
  const pick = <T>(items: readonly T[]): T => {
    if (items.length === 0) throw new RangeError('Expected at least one item to pick from')
    return items[below(items.length)] as T
  }
  const sample = <T>(items: readonly T[], count: number): T[] => {
    if (count > items.length) throw new RangeError(`Expected at most ${items.length} items, got ${count}`)
    const pool = [...items]
    for (let index = 0; index < count; index += 1) {
      const other = index + below(pool.length - index)
      const kept = pool[index] as T
      pool[index] = pool[other] as T
      pool[other] = kept
    }
    return pool.slice(0, count)
  }
  return { unit, below, pick, sample }
}
