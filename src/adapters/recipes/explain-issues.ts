import type { z } from 'zod'
import { nearestName } from '../../domain/near-names.ts'
import { describeExpectation, keysAt, schemaAt } from './schema-map.ts'
import type { RecipeText } from './recipe-text.ts'

type Issue = z.core.$ZodIssue

/** Keys that users try, with the correct key. A map and not an object, because a key may be called `constructor`. */
const INSTEAD: ReadonlyMap<string, string> = new Map([
  ['name', 'a recipe is named by its file'],
  ['evaluate.quickEvery', 'reinforce.evaluateEvery says how often'],
])

/** Converts zod's issues into problems of a recipe, one for each key. */
export function explainIssues(issues: readonly Issue[], value: unknown): RecipeProblem[] {
  const problems = issues.flatMap((issue) => {
    const path = issue.path.filter((key): key is string | number => typeof key !== 'symbol')
    if (issue.code === 'invalid_key') return [invalidName(issue, path)]
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey([...path, key], value))
    return [wrongValue(issue, path, value)]
  })
  // A number beyond two limits violates two rules with the same text.
  const texts = problems.map((problem) => JSON.stringify(problem))
  return problems.filter((_, index) => texts.indexOf(texts[index] ?? '') === index)
}

function unknownKey(path: KeyPath, value: unknown): RecipeProblem {
  const key = String(path.at(-1))
  const known = keysAt(path.slice(0, -1), value)
  const near = nearestName(key, known)
  const hint =
    INSTEAD.get(path.join('.')) ?? (near === null ? `known here: ${known.join(', ')}` : `did you mean ${near}?`)
  return { rule: 'unknown-key', path, message: 'is not a key of a recipe', hint, at: 'key' }
}

/** A name chosen by the recipe's author. */
function invalidName({ issues }: z.core.$ZodIssueInvalidKey, path: KeyPath): RecipeProblem {
  const message = issues[0]?.message ?? 'expected another name'
  return { rule: 'range', path, message: `${message}, got ${show(path.at(-1))}`, hint: null, at: 'key' }
}

function wrongValue(issue: Issue, path: KeyPath, value: unknown): RecipeProblem {
  const node = schemaAt(path, value)
  const got = valueAt(value, path)
  const expected =
    discriminators(issue) ?? ownWords(issue) ?? (node === null ? issue.message : describeExpectation(node))
  const rule = got === undefined ? 'missing' : ruleOf(issue)
  // The name of a variable that holds a key was expected; the key may have come in its place.
  const shown = String(path.at(-1)).endsWith('Variable') && typeof got === 'string' ? 'another text' : show(got)
  const message = `expected ${expected}, got ${got === undefined ? 'nothing' : shown}`
  return {
    rule,
    path,
    message,
    hint: choiceHint(issue, got) ?? formHint(expected, got) ?? node?.description ?? null,
    at: 'value',
  }
}

/** An invalid `kind`: the schema at that path knows only one of the kinds. */
function discriminators(issue: Issue): string | null {
  if (issue.code !== 'invalid_union' || !('options' in issue) || !Array.isArray(issue.options)) return null
  return `one of ${issue.options.map(String).join(', ')}`
}

/** The schema's own sentence about a text's form; null where it has none. */
function ownWords(issue: Issue): string | null {
  if (issue.code !== 'invalid_format') return null
  return /^expected (.+)/s.exec(issue.message)?.[1] ?? null
}

function ruleOf({ code }: Issue): RecipeProblem['rule'] {
  switch (code) {
    case 'too_small':
    case 'too_big':
    case 'not_multiple_of':
    case 'invalid_format':
      return 'range'
    case 'invalid_value':
    case 'invalid_union':
      return 'choice'
    default:
      return 'type'
  }
}

function choiceHint(issue: Issue, got: unknown): string | null {
  if (issue.code !== 'invalid_value' || typeof got !== 'string') return null
  const near = nearestName(got, issue.values.map(String))
  return near === null ? null : `did you mean ${near}?`
}

/** How text becomes the value that was probably meant: a number with a unit, a number in quotes, a truth value of YAML 1.1. */
function formHint(expected: string, got: unknown): string | null {
  if (typeof got !== 'string') return null
  if (/\b(?:number|integer)\b/.test(expected)) {
    if (/^\s*[-+]?\.?\d[\d_.,]*\s*[a-zA-Zµ%]+\s*$/.test(got)) return 'write the number alone, in the unit of the key'
    if (/^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?$/i.test(got)) return `write ${got} without quotes`
  }
  const [truth] = TRUTHS.find(([, words]) => words.includes(got.toLowerCase())) ?? []
  return truth !== undefined && /\b(?:true|false)\b/.test(expected) ? `YAML reads ${got} as text: write ${truth}` : null
}

const TRUTHS: readonly [truth: string, words: readonly string[]][] = [
  ['true', ['yes', 'on', 'y', 'true']],
  ['false', ['no', 'off', 'n', 'false']],
]

function valueAt(value: unknown, path: KeyPath): unknown {
  let here = value
  for (const key of path) {
    if (typeof here !== 'object' || here === null) return undefined
    here = (here as Record<string | number, unknown>)[key]
  }
  return here
}

function show(value: unknown): string {
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value))
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

interface FormatInput {
  problems: readonly (RecipeProblem & { position?: TextPosition })[]
  file: RecipeText
  label: string
  overrides: Record<string, unknown>
}

/**
 * ```
 * recipes/nightly.yaml:14:9 error recipe/range evaluate.attempts: expected an integer ≥ 1, got 0
 *   14 |   attempts: 0
 *      hint: k: episodes per task
 * ```
 */
export function formatProblems({ problems, file, label, overrides }: FormatInput): string {
  const located = problems.map((problem) => ({
    problem,
    position: problem.position ?? (isIn(overrides, problem.path) ? null : file.locate(problem.path, problem.at)),
  }))
  const sorted = located.toSorted((a, b) => (a.position?.line ?? 0) - (b.position?.line ?? 0))
  const texts = sorted.map(({ problem, position }) => {
    const place =
      position === null ? whereElse(problem, label, overrides) : `${label}:${position.line}:${position.column}`
    const key = showPath(problem.path)
    const head = `${place} error recipe/${problem.rule} ${key === '' ? '' : `${key}: `}${problem.message}`
    const line = position === null ? undefined : file.lines[position.line - 1]
    return [
      head,
      ...(position === null || line === undefined ? [] : [`  ${position.line} | ${excerptOf(line, position.column)}`]),
      ...(problem.hint === null ? [] : [`     hint: ${problem.hint}`]),
    ].join('\n')
  })
  const count = `${problems.length} problem${problems.length === 1 ? '' : 's'}`
  return `The recipe has ${count}\n${texts.join('\n')}`
}

/** A line of a generated file may have any length. */
function excerptOf(line: string, column: number): string {
  const text = line.trimEnd()
  if (text.length <= MAX_EXCERPT) return text
  const start = Math.max(0, Math.min(column - 1 - MAX_EXCERPT / 2, text.length - MAX_EXCERPT))
  const end = start + MAX_EXCERPT
  return `${start === 0 ? '' : '…'}${text.slice(start, end)}${end < text.length ? '…' : ''}`
}

const MAX_EXCERPT = 160

function whereElse({ path }: RecipeProblem, label: string, overrides: Record<string, unknown>): string {
  return isIn(overrides, path) ? 'overrides' : `${label}:1:1`
}

/** Returns true if the path was set by the overrides. */
function isIn(overrides: Record<string, unknown>, path: RecipeProblem['path']): boolean {
  let here: unknown = overrides
  for (const key of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return false
    here = (here as Record<string | number, unknown>)[key]
  }
  return path.length > 0
}

/** A key path into a recipe: names and list positions. */
export type KeyPath = (string | number)[]

export interface RecipeProblem {
  rule: 'syntax' | 'missing' | 'type' | 'range' | 'choice' | 'unknown-key' | 'combination'
  path: KeyPath
  /** The expectation and the actual value, without the path. */
  message: string
  hint: string | null
  /** Where to point: at the value (default) or, for unknown keys, at the key. */
  at: 'value' | 'key'
}

export interface TextPosition {
  /** 1-based. */
  line: number
  column: number
}

/** `evaluate.attempts`, `reinforce.stages[0].clip`. */
function showPath(path: KeyPath): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : text === '' ? key : `${text}.${key}`),
    '',
  )
}
