import type { TokenUsage } from '../../contracts/policy.types.ts'
import type { PriceRecipe } from '../../contracts/recipe.types.ts'

/** The facts of an attempt that determine its cost. */
export interface PaidFacts {
  usage: TokenUsage | null
  /** First prompt and last observation, Unix ms; null if the attempt ended before. */
  startedMs: number | null
  endedMs: number | null
}

const MILLION = 1_000_000
const HOUR_MS = 3_600_000

/**
 * Returns the cost of each attempt, in order. Tokens are counted at their price; cached ones at their own, or as other input if there
 * is no such price or the server does not report cached tokens. Machines are paid while any attempt runs, and their cost is divided in
 * proportion to the attempts' own time, so that the attempts of an evaluation add up to the total.
 * @returns null for an attempt without token counts, if tokens have a price
 */
export function attemptCosts(facts: readonly PaidFacts[], prices: PriceRecipe): (number | null)[] {
  const share = machineShare(facts, prices)
  return facts.map((attempt) => {
    const tokens = tokenCost(attempt.usage, prices.perMillionTokens)
    return tokens === null ? null : tokens + share * durationMs(attempt)
  })
}

function tokenCost(usage: TokenUsage | null, price: PriceRecipe['perMillionTokens']): number | null {
  if (price === null) return 0
  if (usage === null) return null
  const cached = usage.cachedTokens ?? 0
  const input = (usage.promptTokens - cached) * price.input + cached * (price.cachedInput ?? price.input)
  return (input + usage.completionTokens * price.output) / MILLION
}

/** The cost of all machines together for so many milliseconds. */
export function rentOf(ms: number, prices: PriceRecipe): number {
  return (ms / HOUR_MS) * perHourOf(prices)
}

function perHourOf({ machines }: PriceRecipe): number {
  return machines.reduce((sum, machine) => sum + machine.count * machine.perHour, 0)
}

/** The machine cost per millisecond of an attempt. */
function machineShare(facts: readonly PaidFacts[], prices: PriceRecipe): number {
  const perHour = perHourOf(prices)
  const attemptsMs = facts.reduce((sum, attempt) => sum + durationMs(attempt), 0)
  if (perHour === 0 || attemptsMs === 0) return 0
  const starts = facts.flatMap(({ startedMs, endedMs }) => (endedMs === null || startedMs === null ? [] : [startedMs]))
  const ends = facts.flatMap(({ startedMs, endedMs }) => (startedMs === null || endedMs === null ? [] : [endedMs]))
  const spanMs = ends.reduce((a, b) => Math.max(a, b), 0) - starts.reduce((a, b) => Math.min(a, b), Infinity)
  return ((spanMs / HOUR_MS) * perHour) / attemptsMs
}

function durationMs({ startedMs, endedMs }: PaidFacts): number {
  return startedMs === null || endedMs === null ? 0 : Math.max(0, endedMs - startedMs)
}
