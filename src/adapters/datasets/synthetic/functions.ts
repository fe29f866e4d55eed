import { operatorOf } from './operators.ts'
import type { FunctionKind, PythonValue } from './operators.ts'

/** One small Python function of a synthetic repository. */
export interface FunctionSpec {
  verb: string
  noun: string
  kind: FunctionKind
  /** Symbol of its operator. */
  operator: string
  /** Second operand of the kind `constant`. It is drawn for every function but used only by that kind. */
  constant: number
  parameters: string[]
  hasDocstring: boolean
  phrase: 0 | 1
}

export function functionName({ verb, noun }: Pick<FunctionSpec, 'verb' | 'noun'>): string {
  return `${verb}_${noun}`
}

export interface FunctionText {
  lines: string[]
  /** Index in `lines` of the line with the operator and the constant. */
  decisiveLine: number
}

export function functionText(spec: FunctionSpec): FunctionText {
  const head = [`def ${functionName(spec)}(${spec.parameters.join(', ')}):`]
  if (spec.hasDocstring) head.push(`    """${capitalise(spec.verb)} the ${spec.noun}."""`)
  return { lines: [...head, ...bodyLines(spec)], decisiveLine: head.length }
}

function bodyLines({ kind, operator, constant, parameters }: FunctionSpec): string[] {
  const [first = '', second = ''] = parameters
  if (kind === 'choice') return [`    return ${operator}(${first}, ${second})`]
  if (kind === 'constant') return [`    return ${first} ${operator} ${constant}`]
  if (kind === 'guard')
    return [`    if ${first} ${operator} ${second}:`, `        return ${second}`, `    return ${first}`]
  return [`    return ${first} ${operator} ${second}`]
}

/** The wanted result, as the issue describes it. */
export function wantedResult({ kind, operator, constant, phrase }: FunctionSpec): string {
  return operatorOf(kind, operator).phrases[phrase].replaceAll('{k}', String(constant))
}

/** Arguments of the hidden tests, chosen so that no two operators of a family agree on all of them. */
export function testArguments(kind: FunctionKind): number[][] {
  if (kind === 'constant') return [[3], [10], [41]]
  return [
    [17, 5],
    [5, 17],
    [6, 6],
    [23, 4],
  ]
}

/** The correct result as a Python literal. */
export function expectedLiteral(spec: FunctionSpec, values: number[]): string {
  const [first = 0, second = spec.constant] = values
  return pythonLiteral(operatorOf(spec.kind, spec.operator).evaluate(first, second))
}

function pythonLiteral(value: PythonValue): string {
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'number') return String(value)
  return `(${value.join(', ')})`
}

function capitalise(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}
