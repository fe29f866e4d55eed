import type { EpisodeIdentity } from '../contracts/episodes.types.ts'

interface OrderByHashInput<T> {
  items: readonly T[]
  /** Unique text of an item; its hash is the sort key. */
  material: (item: T) => string
  hash: HashText
}

/** A shuffle any language can repeat: it depends on each item's own text and on nothing else, least of all on the input order. */
export function orderByHash<T>({ items, material, hash }: OrderByHashInput<T>): T[] {
  return items
    .map((item) => ({ item, key: hash(material(item)) }))
    .sort((a, b) => compareText(a.key, b.key))
    .map(({ item }) => item)
}

/** By code unit: the same order on every machine, unlike a locale's. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** SHA-256 of a text as lower-case hex. Injected: workflows have no node built-ins. */
export type HashText = (text: string) => string

/** What names a draw. The run's name is left out on purpose: a run under another name repeats every sample. */
interface SeedIdentity extends Omit<EpisodeIdentity, 'run'> {
  recipeSeed: number
}

/** `seed/stage/iteration/task/index`: the portable string that orders trajectories in a batch. */
export function episodeMaterial({ recipeSeed, stage, iteration, taskId, index }: SeedIdentity): string {
  return `${recipeSeed}/${stage}/${iteration}/${taskId}/${index}`
}

/** What the sampling seed of a turn is the hash of. */
export function turnMaterial({ turn, ...identity }: SeedIdentity & { turn: number }): string {
  return `${episodeMaterial(identity)}/${turn}`
}

/** 48 bits: exact in a JavaScript number, and inside every server's signed 64-bit seed field. */
const SEED_HEX_DIGITS = 12

/** Integer in [0, 2^48). */
export function seedFrom(hexDigest: string): number {
  return Number.parseInt(hexDigest.slice(0, SEED_HEX_DIGITS), 16)
}
