import { createHash } from 'node:crypto'
import type { SyntheticSource } from '../../../contracts/tasks.types.ts'
import { functionName, functionText, wantedResult, type FunctionSpec } from './functions.ts'
import { KIND_SHARES, OPERATORS } from './operators.ts'
import { MODULES, NOUNS, PACKAGES, PARAMETERS, VERBS } from './words.ts'

const MODULES_PER_PACKAGE = 3
const FUNCTIONS_PER_MODULE = 3
const FUNCTIONS = MODULES_PER_PACKAGE * FUNCTIONS_PER_MODULE

interface SourceModule {
  /** Relative to the repository. */
  path: string
  /** Import path. */
  name: string
  /** The correct functions, in file order. In one module the target is among them. */
  functions: FunctionSpec[]
  /** The lines as committed, which include the wrong line. */
  lines: string[]
}

/** Position and correct content of the wrong line. Known to the gold patch and the scripted solver, never to the agent. */
interface TargetLine {
  path: string
  /** 1-based line of the target's `def`. */
  definitionLine: number
  /** 1-based line that is wrong. */
  wrongLine: number
  wrongText: string
  rightText: string
}

export interface ComposedTask {
  packageName: string
  modules: SourceModule[]
  /** The correct function. */
  target: FunctionSpec
  targetLine: TargetLine
  /** Level 1 names file and function, level 2 the function, level 3 only the wanted result. */
  level: 1 | 2 | 3
  statement: string
}

interface Pair {
  verb: string
  noun: string
}

/** Derives a whole task from its source. Deterministic: the same source gives the same task on every machine. */
export function composeTask({ family, seed, split, index }: SyntheticSource): ComposedTask {
  const random = randomFrom(`${family}/${seed}/${split}/${index}`)
  const level = random.pick([1, 2, 3] as const)
  const packageName = random.pick(PACKAGES)
  const moduleNames = random.sample(MODULES, MODULES_PER_PACKAGE)
  const pairs = drawPairs(random, split)
  const order = random.sample([...pairs.keys()], pairs.length)
  const specs = pairs.map((pair) => drawFunction(random, pair))

  const target = specs[0] as FunctionSpec
  const layout = moduleNames.map((name, position) => {
    const members = order.slice(position * FUNCTIONS_PER_MODULE, (position + 1) * FUNCTIONS_PER_MODULE)
    const functions = members.map((member) => specs[member] as FunctionSpec)
    nameParameters(random, functions)
    return { name, functions }
  })
  const wrong = drawWrong(random, target)

  const modules = layout.map(({ name, functions }) => ({
    name: `${packageName}.${name}`,
    path: `${packageName}/${name}.py`,
    functions,
    lines: moduleLines(functions.map((spec) => functionText(spec === target ? wrong : spec).lines)),
  }))
  const targetLine = locate(modules, target, wrong)
  return {
    packageName,
    modules,
    target,
    targetLine,
    level,
    statement: stateIssue(level, packageName, target, targetLine),
  }
}

/** A quarter of all names is reserved for evaluation, so that no target or neighbour of one split ever occurs in the other. */
export function splitOf({ verb, noun }: Pair): 'train' | 'eval' {
  const [byte = 0] = createHash('sha256').update(`${verb}_${noun}`).digest()
  return byte % 4 === 0 ? 'eval' : 'train'
}

/** Returns the target first, then a decoy with its verb, one with its noun, and six others. */
function drawPairs(random: Random, split: 'train' | 'eval'): Pair[] {
  const pairs: Pair[] = []
  const add = (pair: Pair): void => {
    const isNew = pairs.every(({ verb, noun }) => verb !== pair.verb || noun !== pair.noun)
    if (isNew && splitOf(pair) === split) pairs.push(pair)
  }
  const drawAny = (): Pair => ({ verb: random.pick(VERBS), noun: random.pick(NOUNS) })
  while (pairs.length < 1) add(drawAny())
  const [{ verb, noun }] = pairs as [Pair]
  while (pairs.length < 2) add({ verb, noun: random.pick(NOUNS) })
  while (pairs.length < 3) add({ verb: random.pick(VERBS), noun })
  while (pairs.length < FUNCTIONS) add(drawAny())
  return pairs
}

function drawFunction(random: Random, pair: Pair): FunctionSpec {
  const kind = random.pick(KIND_SHARES)
  return {
    ...pair,
    kind,
    operator: random.pick(OPERATORS[kind]).symbol,
    constant: 2 + random.below(98),
    parameters: [],
    hasDocstring: random.unit() < 0.4,
    phrase: random.pick([0, 1] as const),
  }
}

/** Parameter names are distinct within a module, because two lines with equal operands could not be distinguished by their words. */
function nameParameters(random: Random, functions: FunctionSpec[]): void {
  const names = random.sample(PARAMETERS, 2 * functions.length)
  for (const [position, spec] of functions.entries()) {
    spec.parameters = names.slice(2 * position, 2 * position + (spec.kind === 'constant' ? 1 : 2))
  }
}

/** Returns the same function with another operator of its family or, for three of four constants, with another number. */
function drawWrong(random: Random, target: FunctionSpec): FunctionSpec {
  if (target.kind === 'constant' && random.unit() < 0.75) {
    const other = 2 + random.below(97)
    return { ...target, constant: other >= target.constant ? other + 1 : other }
  }
  const others = OPERATORS[target.kind].filter(({ symbol }) => symbol !== target.operator)
  return { ...target, operator: random.pick(others).symbol }
}

function moduleLines(functions: string[][]): string[] {
  return functions.flatMap((lines, position) => (position === 0 ? lines : ['', '', ...lines]))
}

function locate(modules: SourceModule[], target: FunctionSpec, wrong: FunctionSpec): TargetLine {
  const home = modules.find(({ functions }) => functions.includes(target)) as SourceModule
  const definition = home.lines.indexOf(functionText(target).lines[0] ?? '')
  const { lines: rightLines, decisiveLine } = functionText(target)
  return {
    path: home.path,
    definitionLine: definition + 1,
    wrongLine: definition + decisiveLine + 1,
    wrongText: functionText(wrong).lines[decisiveLine] ?? '',
    rightText: rightLines[decisiveLine] ?? '',
  }
}

function stateIssue(level: 1 | 2 | 3, packageName: string, target: FunctionSpec, { path }: TargetLine): string {
  const name = functionName(target)
  const wanted = wantedResult(target)
  if (level === 1) return `\`${name}\` in ${path} is wrong. It should return ${wanted}.`
  if (level === 2) return `\`${name}\` is wrong. It should return ${wanted}.`
  return `${packageName}: ${target.verb} ${target.noun} is wrong. We expect ${wanted}.`
}

/** Reproducible random choices: the same name gives the same sequence on every machine and Node version. */
export interface Random {
  /** Uniform in [0, 1). */
  unit(): number
  /** Uniform integer in [0, bound). */
  below(bound: number): number
  pick<T>(items: readonly T[]): T
  /** `count` different items in random order. */
  sample<T>(items: readonly T[], count: number): T[]
}

/** The generator sfc32 (public domain, period > 2^64), seeded with the SHA-256 of a name, so that sequences of similar names are
 *  unrelated. */
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
