/** Checks of values that people and other programs send, where types prove nothing. */
export type Check = (value: unknown) => boolean

export const isText: Check = (value) => typeof value === 'string'

export const isFlag: Check = (value) => typeof value === 'boolean'

export const isNumber: Check = (value) => Number.isFinite(value)

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** True for one JSON object; a list is none. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A text that is no longer than an id of Temporal, because the server refuses longer ones in commands and blocks the workflow. */
export const isId: Check = (value) => typeof value === 'string' && value !== '' && value.length <= 1_000

export function oneOf(...values: readonly unknown[]): Check {
  return (value) => values.includes(value)
}

/** Absent or null, or as the check says. */
export function optional(check: Check): Check {
  return (value) => value === undefined || value === null || check(value)
}

export function listOf(check: Check): Check {
  return (value) => Array.isArray(value) && value.every(check)
}

export function recordOf(check: Check): Check {
  return (value) => isObject(value) && Object.values(value).every(check)
}

/** An object with these keys. Further keys are allowed, because a newer sender may add some. */
export function shape(keys: Readonly<Record<string, Check>>): Check {
  return (value) => isObject(value) && Object.entries(keys).every(([key, check]) => check(value[key]))
}

/** Whether lists and objects contain each other more than `most` deep. What reads a value by calling itself would end with a stack. */
export function isNestedBeyond(value: unknown, most: number): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; depth <= most; depth++) {
    level = level.flatMap((one) =>
      typeof one === 'object' && one !== null && !ArrayBuffer.isView(one) ? Object.values(one) : [],
    )
    if (level.length === 0) return false
  }
  return true
}
