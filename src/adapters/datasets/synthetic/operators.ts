export type FunctionKind = 'arithmetic' | 'comparison' | 'choice' | 'constant' | 'guard'

/** A Python value of the family: a number, a boolean or a pair. */
export type PythonValue = number | boolean | readonly [number, number]

export interface Operator {
  /** The operator in Python. */
  symbol: string
  /** Two phrasings of the wanted result. They avoid parameter names, so that the code must be read before it can be changed. */
  phrases: readonly [string, string]
  evaluate(first: number, second: number): PythonValue
}

const arithmetic: Operator[] = [
  {
    symbol: '+',
    phrases: ['the sum of both arguments', 'both arguments added together'],
    evaluate: (first, second) => first + second,
  },
  {
    symbol: '-',
    phrases: ['the first argument minus the second', 'the second argument subtracted from the first'],
    evaluate: (first, second) => first - second,
  },
  {
    symbol: '*',
    phrases: ['the product of both arguments', 'both arguments multiplied'],
    evaluate: (first, second) => first * second,
  },
  {
    symbol: '//',
    phrases: ['the first argument divided by the second, rounded down', 'the whole quotient of the arguments'],
    evaluate: (first, second) => Math.floor(first / second),
  },
  {
    symbol: '%',
    phrases: ['the remainder after dividing the first argument by the second', 'the first argument modulo the second'],
    evaluate: (first, second) => first % second,
  },
]

const comparison: Operator[] = [
  {
    symbol: '<',
    phrases: [
      'True only if the first argument is less than the second',
      'whether the first argument is below the second',
    ],
    evaluate: (first, second) => first < second,
  },
  {
    symbol: '<=',
    phrases: [
      'True only if the first argument is at most the second',
      'whether the first argument is not above the second',
    ],
    evaluate: (first, second) => first <= second,
  },
  {
    symbol: '>',
    phrases: [
      'True only if the first argument is more than the second',
      'whether the first argument is above the second',
    ],
    evaluate: (first, second) => first > second,
  },
  {
    symbol: '>=',
    phrases: [
      'True only if the first argument is at least the second',
      'whether the first argument is not below the second',
    ],
    evaluate: (first, second) => first >= second,
  },
  {
    symbol: '==',
    phrases: ['True only if both arguments are equal', 'whether the arguments are the same'],
    evaluate: (first, second) => first === second,
  },
  {
    symbol: '!=',
    phrases: ['True only if the arguments differ', 'whether the arguments are not the same'],
    evaluate: (first, second) => first !== second,
  },
]

const choice: Operator[] = [
  {
    symbol: 'max',
    phrases: ['the larger of both arguments', 'the bigger argument'],
    evaluate: (first, second) => Math.max(first, second),
  },
  {
    symbol: 'min',
    phrases: ['the smaller of both arguments', 'the lesser argument'],
    evaluate: (first, second) => Math.min(first, second),
  },
  {
    symbol: 'pow',
    phrases: ['the first argument to the power of the second', 'the first argument raised to the second as exponent'],
    evaluate: integerPower,
  },
  {
    symbol: 'divmod',
    phrases: ['quotient and remainder as a pair', 'the pair of whole quotient and remainder'],
    evaluate: (first, second) => [Math.floor(first / second), first % second],
  },
]

/** The constant takes the place of the second argument; `{k}` in a phrase is its value. */
const constant: Operator[] = [
  {
    symbol: '+',
    phrases: ['the argument plus {k}', 'the argument increased by {k}'],
    evaluate: (first, second) => first + second,
  },
  {
    symbol: '-',
    phrases: ['the argument minus {k}', 'the argument decreased by {k}'],
    evaluate: (first, second) => first - second,
  },
  {
    symbol: '*',
    phrases: ['the argument times {k}', '{k} times the argument'],
    evaluate: (first, second) => first * second,
  },
]

/** `if first OP second: return second`, otherwise the first. */
const guard: Operator[] = [
  {
    symbol: '>',
    phrases: ['the first argument, but never more than the second', 'the first argument capped by the second'],
    evaluate: (first, second) => (first > second ? second : first),
  },
  {
    symbol: '<',
    phrases: [
      'the first argument, but never less than the second',
      'the first argument raised to the second if below it',
    ],
    evaluate: (first, second) => (first < second ? second : first),
  },
]

export const OPERATORS: Record<FunctionKind, readonly Operator[]> = { arithmetic, comparison, choice, constant, guard }

/**
 * Each entry has an equal chance in the draw. `guard` has only two operators, so guessing solves half of its tasks. It is rare to keep
 * the success rate of guessing in the family low.
 */
export const KIND_SHARES: readonly FunctionKind[] = [
  'arithmetic',
  'arithmetic',
  'arithmetic',
  'comparison',
  'comparison',
  'comparison',
  'choice',
  'choice',
  'constant',
  'constant',
  'constant',
  'guard',
]

export function operatorOf(kind: FunctionKind, symbol: string): Operator {
  const operator = OPERATORS[kind].find((candidate) => candidate.symbol === symbol)
  if (operator === undefined) throw new RangeError(`Expected an operator of ${kind}, got ${symbol}`)
  return operator
}

/** Exact for the arguments of the tests (5^17 < 2^53), while `**` may round. */
function integerPower(base: number, exponent: number): number {
  let power = 1
  for (let index = 0; index < exponent; index += 1) power *= base
  return power
}
