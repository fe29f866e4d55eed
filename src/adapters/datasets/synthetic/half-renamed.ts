import { createHash } from 'node:crypto'
import { type Random, randomFrom } from './compose.ts'
import type { SyntheticSource } from '../../../contracts/tasks.types.ts'

/** The kind of name that was changed in only one place. */
export type RenamedKind = 'function' | 'field' | 'keyword'

/** A function that can be called with small integers. */
export interface CalledFunction {
  name: string
  lines: string[]
  /** It uses the renamed name, so it fails until it uses the new one. */
  isStale: boolean
  /** Calls and their results, as Python. The visible test checks the first, hidden tests check all. */
  checks: { call: string; result: number }[]
  /** Class of the home module that the calls construct. */
  constructs: string | null
}

export interface RenamedModule {
  /** Relative to the repository. */
  path: string
  /** Import path. */
  name: string
  functions: CalledFunction[]
  /** The correct lines. */
  right: string[]
  /** The lines as committed, which use the old name if the module is stale. */
  lines: string[]
  /** 1-based numbers of the lines that use the old name. */
  staleLines: number[]
}

/** A package in which a name was changed at its definition but not at all of its uses. */
export interface RenamedTask {
  packageName: string
  /** The module that defines the renamed name. */
  home: RenamedModule
  /** In order of their paths, including the home module. */
  modules: RenamedModule[]
  kind: RenamedKind
  oldName: string
  newName: string
  /** Level 1 states both names and the file, level 2 the old name. Level 3 states neither, and two files are stale. */
  level: 1 | 2 | 3
  statement: string
}

/** The renamed name as seen by a module that uses it. */
interface Renamed {
  kind: RenamedKind
  oldName: string
  newName: string
  /** The function with the keyword, or the class with the field. */
  owner: string
  /** Second field of the class. */
  otherField: string
  evaluate(first: number, second: number): number
}

interface Drawing {
  random: Random
  stem(): string
  /** Two stems joined into one name. */
  pair(): string
}

/** Derives a whole task from its source. Deterministic: the same source gives the same task on every machine. */
export function composeRenamed({ family, seed, split, index }: SyntheticSource): RenamedTask {
  const random = randomFrom(`${family}/${seed}/${split}/${index}`)
  const drawing = drawNames(random, split)
  const level = random.pick([1, 2, 3] as const)
  const kind = random.pick(['function', 'field', 'keyword'] as const)
  const packageName = drawing.stem()
  const [homeName, staleName, otherName] = [drawing.stem(), drawing.stem(), drawing.stem()]
  const prefix = drawing.stem()
  const oldName = `${prefix}_${drawing.stem()}`
  // Half of all new names share their first half with the old name, so that half a name is not enough to identify it.
  const newName = random.unit() < 0.5 ? `${prefix}_${drawing.stem()}` : drawing.pair()
  const defined = drawHome(drawing, { kind, oldName, newName })

  const nameOf = (module: string): string => `${packageName}.${module}`
  const home = assemble({ packageName, module: homeName, ...defined.source })
  const use = (module: string, isStale: boolean): RenamedModule => {
    const drawn = drawUser(drawing, { renamed: defined.renamed, homeModule: nameOf(homeName), isStale })
    return assemble({ packageName, module, ...drawn })
  }
  const users = [use(staleName, true), use(otherName, level === 3)]
  const modules = [home, ...users].toSorted((left, right) => (left.path < right.path ? -1 : 1))
  const stalePath = users[0]?.path ?? ''
  return {
    packageName,
    home,
    modules,
    kind,
    oldName,
    newName,
    level,
    statement: stateIssue({ random, level, packageName, oldName, newName, stalePath }),
  }
}

/** Every stem of a task is drawn once, so that two names never look alike by chance. */
function drawNames(random: Random, split: Split): Drawing {
  const drawn = new Set<string>()
  const stem = (): string => {
    for (;;) {
      const root = random.pick(ROOTS[split])
      if (drawn.has(root)) continue
      drawn.add(root)
      return root + random.pick(ENDINGS)
    }
  }
  return { random, stem, pair: () => `${stem()}_${stem()}` }
}

interface ModuleSource {
  functions: CalledFunction[]
  /** Lines before the functions. */
  head: string[]
  /** Blocks that no test calls, such as a class. */
  blocks?: string[][]
  stale?: { oldName: string; newName: string }
}

function assemble({
  packageName,
  module,
  functions,
  head,
  blocks = [],
  stale,
}: ModuleSource & { packageName: string; module: string }): RenamedModule {
  const parts = [...(head.length > 0 ? [head] : []), ...blocks, ...functions.map(({ lines }) => lines)]
  const right = parts.flatMap((part, position) => (position === 0 ? part : ['', '', ...part]))
  const lines = right.map((line) => (stale === undefined ? line : line.replaceAll(stale.newName, stale.oldName)))
  return {
    path: `${packageName}/${module}.py`,
    name: `${packageName}.${module}`,
    functions,
    right,
    lines,
    staleLines: right.flatMap((line, index) => (line === lines[index] ? [] : [index + 1])),
  }
}

/** Helpers of two numbers. The result of each depends on the order of its arguments. */
const HELPERS: ((k: number) => { text(a: string, b: string): string; evaluate(a: number, b: number): number })[] = [
  (k) => ({ text: (a, b) => `${a} + ${b} * ${k}`, evaluate: (a, b) => a + b * k }),
  (k) => ({ text: (a, b) => `${a} * ${k} - ${b}`, evaluate: (a, b) => a * k - b }),
  (k) => ({ text: (a, b) => `${a} - ${b} + ${k}`, evaluate: (a, b) => a - b + k }),
]

function drawHelper(drawing: Drawing, name: string, second: string, comment: string) {
  const { random, stem } = drawing
  const form = random.pick(HELPERS)(small(random))
  const first = stem()
  const lines = [`def ${name}(${first}, ${second}):${comment}`, `    return ${form.text(first, second)}`]
  return { lines, evaluate: form.evaluate }
}

/** Draws the module that defines the renamed name, and two others, one of which may have been renamed everywhere. */
function drawHome(
  drawing: Drawing,
  { kind, oldName, newName }: Pick<Renamed, 'kind' | 'oldName' | 'newName'>,
): { source: ModuleSource; renamed: Renamed } {
  const { random, stem, pair } = drawing
  const owner = kind === 'field' ? capitalise(stem()) : pair()
  const otherField = pair()
  const note = `  # formerly ${oldName}`
  const others = [0, 1].map((position): CalledFunction => {
    const name = pair()
    const comment = position === 0 && random.unit() < 0.5 ? `  # formerly ${pair()}` : ''
    const { lines, evaluate } = drawHelper(drawing, name, stem(), comment)
    return { name, lines, isStale: false, checks: numberChecks(name, evaluate), constructs: null }
  })
  if (kind === 'field') {
    const [first, second] = [stem(), stem()]
    const block = [
      `class ${owner}:`,
      `    def __init__(self, ${first}, ${second}):`,
      `        self.${newName} = ${first}${note}`,
      `        self.${otherField} = ${second}`,
    ]
    return {
      source: { head: [], blocks: [block], functions: others },
      renamed: { kind, oldName, newName, owner, otherField, evaluate: (a, b) => a * b },
    }
  }
  const name = kind === 'function' ? newName : owner
  const { lines, evaluate } = drawHelper(drawing, name, kind === 'function' ? stem() : newName, note)
  const checks = numberChecks(name, evaluate)
  const functions = random.sample([{ name, lines, isStale: false, checks, constructs: null }, ...others], 3)
  return { source: { head: [], functions }, renamed: { kind, oldName, newName, owner, otherField, evaluate } }
}

/** Draws a module with two functions that use the renamed name and one that does not. */
function drawUser(
  drawing: Drawing,
  { renamed, homeModule, isStale }: { renamed: Renamed; homeModule: string; isStale: boolean },
): ModuleSource {
  const { random, pair } = drawing
  const users = random.sample([...USES], 2).map((use) => drawUse(drawing, renamed, use, isStale))
  const plainName = pair()
  const plain = drawHelper(drawing, plainName, drawing.stem(), '')
  // An import of a missing name breaks the whole module.
  const isPlainStale = isStale && renamed.kind === 'function'
  const checks = numberChecks(plainName, plain.evaluate)
  const unrelated = { name: plainName, lines: plain.lines, isStale: isPlainStale, checks, constructs: null }
  const functions = random.sample([...users, unrelated], 3)
  const imported = renamed.kind === 'function' ? renamed.newName : renamed.owner
  return {
    // Objects come from the caller, so their class is not imported.
    head: renamed.kind === 'field' ? [] : [`from ${homeModule} import ${imported}`],
    functions,
    ...(isStale ? { stale: renamed } : {}),
  }
}

interface UseText {
  first: string
  second: string
  local: string
  k: number
  access(first: string, second: string): string
}

interface Use {
  body(text: UseText): string[]
  evaluate(access: (second: number) => number, second: number, k: number): number
}

/** Ways to use the name, of one to three lines each. */
const USES: readonly Use[] = [
  {
    body: ({ first, k, second, access }) => [`    return ${access(first, second)} + ${k}`],
    evaluate: (access, second, k) => access(second) + k,
  },
  {
    body: ({ first, second, local, k, access }) => [
      `    ${local} = ${access(first, second)}`,
      `    return ${local} * ${k}`,
    ],
    evaluate: (access, second, k) => access(second) * k,
  },
  {
    body: ({ first, second, k, access }) => [
      `    if ${second} > ${k}:`,
      `        return ${access(first, String(k))}`,
      `    return ${access(first, second)}`,
    ],
    evaluate: (access, second, k) => access(Math.min(second, k)),
  },
  {
    body: ({ first, second, local, k, access }) => [
      `    ${local} = ${access(first, second)} - ${k}`,
      `    return ${local} + ${access(first, String(k))}`,
    ],
    evaluate: (access, second, k) => access(second) - k + access(k),
  },
]

function drawUse(drawing: Drawing, renamed: Renamed, use: Use, isStale: boolean): CalledFunction {
  const { random, stem, pair } = drawing
  const { kind, newName, owner, evaluate } = renamed
  const name = pair()
  const [first, second, local] = [stem(), stem(), stem()]
  const k = small(random)
  const access = (a: string, b: string): string => {
    if (kind === 'field') return `${a}.${newName} * ${b}`
    return kind === 'function' ? `${newName}(${a}, ${b})` : `${owner}(${a}, ${newName}=${b})`
  }
  const checks = ARGUMENTS.map(([a, b]) => ({
    call: `${name}(${kind === 'field' ? `${owner}(${a}, 1)` : a}, ${b})`,
    result: use.evaluate((value) => evaluate(a, value), b, k),
  }))
  const lines = [`def ${name}(${first}, ${second}):`, ...use.body({ first, second, local, k, access })]
  return { name, lines, isStale, checks, constructs: kind === 'field' ? owner : null }
}

/** The first is below every constant of the family and the second above, so both branches are taken. */
const ARGUMENTS = [
  [7, 1],
  [3, 23],
] as const

function numberChecks(name: string, evaluate: (a: number, b: number) => number): CalledFunction['checks'] {
  return ARGUMENTS.map(([a, b]) => ({ call: `${name}(${a}, ${b})`, result: evaluate(a, b) }))
}

function small(random: Random): number {
  return 2 + random.below(8)
}

function stateIssue({
  random,
  level,
  packageName,
  oldName,
  newName,
  stalePath,
}: Pick<RenamedTask, 'level' | 'packageName' | 'oldName' | 'newName'> & { random: Random; stalePath: string }): string {
  if (level === 1) {
    return random.pick([
      `\`${oldName}\` is now \`${newName}\`, but ${stalePath} still uses the old name.`,
      `Since \`${oldName}\` was renamed to \`${newName}\`, ${stalePath} is broken.`,
    ])
  }
  if (level === 2) {
    return random.pick([
      `\`${oldName}\` got a new name, and some code of ${packageName} still uses the old one.`,
      `Code of ${packageName} fails because it uses \`${oldName}\`, which is called otherwise now.`,
    ])
  }
  return random.pick([
    `Tests of ${packageName} fail since a name was changed. More than one file is affected.`,
    `A renaming in ${packageName} was left half done, in several files. The tests show it.`,
  ])
}

function capitalise(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1)
}

/**
 * Names of the family `half-renamed`: invented stems of two syllables, so that a policy has to copy every one of them letter by letter
 * and cannot know any. Training and evaluation use separate stems.
 */
const ONSETS = 'bdfgklmnprstvz'.split('')
const VOWELS = 'aeiou'.split('')
export const ENDINGS = ['', 'l', 'n', 'r', 's']

/** Excluded roots: words of Python, of its library and of the scaffold's texts, and offensive words. */
const LEFT_OUT = new Set(
  [
    'bare base begi bise dago data date dele deli demo done dune fago file fina fine five fuka gave give gone goto kike kimi late leve like line live made make mode modu mole more move name nazi neve node none nose note nume page',
    'pane pape pedo peni pipe poli pure puta rape rate redo rene repo role rule ruse safe same sane save sele sema side sita site size sodo some sore supe sure take tape tele time tito toke tone tota tube tune vagi vari vote zero',
  ].flatMap((words) => words.split(' ')),
)

const SYLLABLES = ONSETS.flatMap((onset) => VOWELS.map((vowel) => onset + vowel))

export type Split = 'train' | 'eval'

/** All roots of each split, in order; each root belongs to one split. */
export const ROOTS: Readonly<Record<Split, readonly string[]>> = rootsBySplit()

/** A quarter of all roots is reserved for evaluation. A stem belongs to its root's split, so no name of one split contains a name of
 *  the other. */
function rootsBySplit(): Record<Split, string[]> {
  const roots: Record<Split, string[]> = { train: [], eval: [] }
  for (const first of SYLLABLES) {
    for (const second of SYLLABLES) {
      const root = first + second
      if (first === second || LEFT_OUT.has(root)) continue
      const [byte = 0] = createHash('sha256').update(`stem ${root}`).digest()
      roots[byte % 4 === 0 ? 'eval' : 'train'].push(root)
    }
  }
  return roots
}
