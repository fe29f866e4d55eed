/**
 * Shapes of stored records. A seal proves that a record's bytes are whole, not that a writer of this program made them. Readers trust
 * types, so the store checks that a record has its type before any reader sees it.
 *
 * A shape is tied to its type in both directions: the compiler refuses an object shape that lacks a field of the type, has one more, or
 * accepts other values than the type has.
 */

/** Why a value does not fit. `at` has the keys from the record to the value, innermost first. */
export interface Misfit {
  at: (string | number)[]
  expected: string
  got: string
}

/** Checks whether a value is a `T`. Returns null if it is. */
export interface Shape<in out T> {
  readonly misfit: (value: unknown) => Misfit | null
  /** Never set: it makes the compiler compare `T` exactly. */
  readonly accepts?: (value: T) => T
}

/** Shape of a field that a record may lack. */
export interface Absentable<in out T> {
  readonly mayBeAbsent: true
  readonly shape: Shape<T>
}

// biome-ignore lint/complexity/noBannedTypes: `{}` is the type that a pick of one optional field extends
type IsOptional<T, K extends keyof T> = {} extends Pick<T, K> ? true : false

type Fields<T> = {
  readonly [K in keyof T]-?: IsOptional<T, K> extends true
    ? Absentable<Exclude<T[K], undefined>>
    : Shape<T[K]> | Absentable<T[K]>
}

const fit = (expected: string, accepts: (value: unknown) => boolean) => ({
  misfit: (value: unknown) => (accepts(value) ? null : { at: [], expected, got: describe(value) }),
})

/** Longest part of a wrong value in a message. */
const MOST_SHOWN = 60

function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object') return 'an object'
  // JSON has nothing else, and an infinite number is no JSON.
  if (typeof value !== 'string') return `${value as number | boolean}`
  return JSON.stringify(value.length <= MOST_SHOWN ? value : `${value.slice(0, MOST_SHOWN)}…`)
}

export const text: Shape<string> = fit('a text', (value) => typeof value === 'string')

export const flag: Shape<boolean> = fit('true or false', (value) => typeof value === 'boolean')

/** JSON has no infinity, but a number beyond the range of doubles is read as one. */
export const number: Shape<number> = fit('a number', (value) => typeof value === 'number' && Number.isFinite(value))

export const count: Shape<number> = fit('a whole number that is not negative', (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0)

/** Readers loop up to such a number, or make a list of as many: none comes near the limit. */
const MOST_IN_A_LOOP = 1_000_000

/** A count of turns, attempts, tasks or the like. */
export const size: Shape<number> = fit(`a whole number from 0 to ${MOST_IN_A_LOOP}`, (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MOST_IN_A_LOOP)

export const integer: Shape<number> = fit('a whole number', (value) => Number.isSafeInteger(value))

/** Tables of exports have 32 bits for such a number, and so have vocabularies and exit codes. */
const MOST_INT32 = 2 ** 31 - 1

export const int32: Shape<number> = fit('a whole number of 32 bits', (value) =>
  Number.isInteger(value) && Math.abs(value as number) <= MOST_INT32)

/** A measured quantity. */
export const amount: Shape<number> = fit('a number that is not negative', (value) =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0)

export const share: Shape<number> = fit('a number from 0 to 1', (value) =>
  typeof value === 'number' && value >= 0 && value <= 1)

/** An instant as text, such as `2026-11-20T10:00:00.000Z` or `2026-11-20`. */
export const instant: Shape<string> = fit('a date', (value) =>
  typeof value === 'string' && value.length <= 40 && !Number.isNaN(Date.parse(value)))

/** Milliseconds since 1970 that a date can have. */
export const instantMs: Shape<number> = fit('milliseconds since 1970', (value) =>
  typeof value === 'number' && value >= 0 && value <= 8.64e15)

/** Content that no reader takes apart without checks of its own. */
export const anything: Shape<unknown> = { misfit: () => null }

/** Ids in the vocabulary of a model: the hot part of a trajectory. */
export const tokenIds: Shape<number[]> = numbers(
  'a list of token ids',
  (id) => Number.isInteger(id) && id >= 0 && id <= MOST_INT32,
)

/** Natural logarithms of probabilities. */
export const logprobs: Shape<number[]> = numbers('a list of numbers', Number.isFinite)

function numbers(expected: string, isOne: (value: number) => boolean): Shape<number[]> {
  return {
    misfit(value) {
      if (!Array.isArray(value)) return { at: [], expected, got: describe(value) }
      for (let at = 0; at < value.length; at++) {
        const one: unknown = value[at]
        if (typeof one !== 'number' || !isOne(one)) return { at: [at], expected: 'a number', got: describe(one) }
      }
      return null
    },
  }
}

export function oneOf<const V extends readonly (string | number | boolean)[]>(...values: V): Shape<V[number]> {
  const allowed = new Set<unknown>(values)
  return fit(values.length === 1 ? JSON.stringify(values[0]) : `one of ${values.join(', ')}`, (value) =>
    allowed.has(value),
  )
}

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return {
    misfit(value) {
      if (value === null) return null
      const misfit = shape.misfit(value)
      if (misfit?.at.length === 0) misfit.expected = `${misfit.expected}, or null`
      return misfit
    },
  }
}

/** A field that a record may lack: it is optional in the type, or records of earlier versions do not have it. */
export function absentable<T>(shape: Shape<T>): Absentable<T> {
  return { mayBeAbsent: true, shape }
}

export function listOf<T>(shape: Shape<T>): Shape<T[]> {
  return {
    misfit(value) {
      if (!Array.isArray(value)) return { at: [], expected: 'a list', got: describe(value) }
      for (let at = 0; at < value.length; at++) {
        const misfit = shape.misfit(value[at])
        if (misfit !== null) return inside(at, misfit)
      }
      return null
    },
  }
}

/** A list of two. */
export function pairOf<T>(shape: Shape<T>): Shape<[T, T]> {
  const list = listOf(shape)
  return {
    misfit: (value) =>
      Array.isArray(value) && value.length !== 2
        ? { at: [], expected: 'a list of two', got: `a list of ${value.length}` }
        : list.misfit(value),
  }
}

/** An object whose keys are data. */
export function mapOf<T>(shape: Shape<T>): Shape<Record<string, T>> {
  return {
    misfit(value) {
      if (!isObject(value)) return { at: [], expected: 'an object', got: describe(value) }
      for (const key of Object.keys(value)) {
        const misfit = shape.misfit(value[key])
        if (misfit !== null) return inside(key, misfit)
      }
      return null
    },
  }
}

/** The same with keys of a known set, each of which may be absent. */
export function partialMapOf<K extends string, T>(keys: readonly K[], shape: Shape<T>): Shape<Partial<Record<K, T>>> {
  const map = mapOf(shape)
  const known = new Set<string>(keys)
  return {
    misfit(value) {
      const misfit = map.misfit(value)
      if (misfit !== null) return misfit
      const unknown = Object.keys(value as object).find((key) => !known.has(key))
      return unknown === undefined ? null : { at: [], expected: `only ${keys.join(', ')}`, got: describe(unknown) }
    },
  }
}

/** An object with these fields. It may have more, because a later version of the same schema may add some. */
export function object<T extends object>(fields: Fields<T>): Shape<T> {
  const list = Object.entries<Shape<never> | Absentable<never>>(fields as never).map(([name, field]) =>
    'mayBeAbsent' in field
      ? { name, mayBeAbsent: true, misfit: field.shape.misfit }
      : { name, mayBeAbsent: false, misfit: field.misfit },
  )
  return {
    misfit(value) {
      if (!isObject(value)) return { at: [], expected: 'an object', got: describe(value) }
      for (const field of list) {
        const found = value[field.name]
        if (found === undefined && field.mayBeAbsent) continue
        const misfit = field.misfit(found)
        if (misfit !== null) return inside(field.name, misfit)
      }
      return null
    },
  }
}

/** A union of objects that one field tells apart. */
export function variants<T extends object, K extends keyof T & string>(
  tag: K,
  cases: { readonly [V in T[K] & string]: Shape<Extract<T, Record<K, V>>> },
): Shape<T> {
  const shapes = new Map(Object.entries<Shape<never>>(cases as never))
  const tags = fit(`one of ${[...shapes.keys()].join(', ')}`, () => false)
  return {
    misfit(value) {
      if (!isObject(value)) return { at: [], expected: 'an object', got: describe(value) }
      const shape = shapes.get(value[tag] as string)
      if (shape !== undefined) return shape.misfit(value)
      const misfit = tags.misfit(value[tag])
      return misfit === null ? null : inside(tag, misfit)
    },
  }
}

/** One of two shapes; the second one's misfit is told. */
export function either<A, B>(first: Shape<A>, second: Shape<B>): Shape<A | B> {
  return { misfit: (value) => (first.misfit(value) === null ? null : second.misfit(value)) }
}

/** A shape with a rule over several fields. The rule returns null, or which field breaks it. */
export function ruled<T>(shape: Shape<T>, rule: (value: T) => Misfit | null): Shape<T> {
  return { misfit: (value) => shape.misfit(value) ?? rule(value as T) }
}

function inside(key: string | number, misfit: Misfit): Misfit {
  misfit.at.push(key)
  return misfit
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The misfit's field in a message, such as `tasks[3].outcomes`. */
export function fieldOf({ at }: Misfit): string {
  const path = at
    .toReversed()
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${key}`))
    .join('')
  return path.startsWith('.') ? path.slice(1) : path
}
