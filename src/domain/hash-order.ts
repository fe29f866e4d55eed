import type { HashText } from './seeds.ts'

export interface OrderByHashInput<T> {
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
