/** Sums that keep what their records do not tell. */
import type { Amount } from '../../contracts/costs.types.ts'

/** Of no record: nothing was spent. */
export const NOTHING: Amount = { total: 0, told: 0, unknown: 0 }

export function amountOf(value: number | null): Amount {
  return value === null ? { total: null, told: 0, unknown: 1 } : { total: value, told: 1, unknown: 0 }
}

export function addAmounts(amounts: readonly Amount[]): Amount {
  let [sum, told, unknown] = [0, 0, 0]
  for (const amount of amounts) {
    sum += amount.total ?? 0
    told += amount.told
    unknown += amount.unknown
  }
  return { total: told === 0 && unknown > 0 ? null : sum, told, unknown }
}

export function sumKnown(values: readonly (number | null)[]): Amount {
  return addAmounts(values.map(amountOf))
}
