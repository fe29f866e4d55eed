import type { EpisodeIdentity } from '../contracts/episodes.types.ts'

interface OrderByHashInput<T> {
  items: readonly T[]
  /** Unique text of an item; its hash is the sort key. */
  material: (item: T) => string
  hash: HashText
}

/** Shuffles items in a way that any language can repeat: the order depends only on each item's own text, and not on the input order. */
export function orderByHash<T>({ items, material, hash }: OrderByHashInput<T>): T[] {
  return items
    .map((item) => ({ item, key: hash(material(item)) }))
    .sort((a, b) => compareText(a.key, b.key))
    .map(({ item }) => item)
}

/** Compares by code unit, which gives the same order on every machine, unlike a locale's order. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** Returns the SHA-256 of a text as lower-case hex. Injected, because workflows have no node built-ins. */
export type HashText = (text: string) => string

/** The identity of a random draw. It excludes the run's name, so that a run under another name repeats every sample. */
interface SeedIdentity extends Omit<EpisodeIdentity, 'run'> {
  recipeSeed: number
}

/** Returns `seed/stage/iteration/task/index`, the portable string that orders trajectories in a batch. */
export function episodeMaterial({ recipeSeed, stage, iteration, taskId, index }: SeedIdentity): string {
  return `${recipeSeed}/${stage}/${iteration}/${taskId}/${index}`
}

/** Returns the text whose hash is the sampling seed of a turn. */
export function turnMaterial({ turn, ...identity }: SeedIdentity & { turn: number }): string {
  return `${episodeMaterial(identity)}/${turn}`
}

/** 48 bits are exact in a JavaScript number and fit every server's signed 64-bit seed field. */
const SEED_HEX_DIGITS = 12

/** Integer in [0, 2^48). */
export function seedFrom(hexDigest: string): number {
  return Number.parseInt(hexDigest.slice(0, SEED_HEX_DIGITS), 16)
}
