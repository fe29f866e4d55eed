import type { z } from 'zod'
import { nearestName } from './nearest-name.ts'
import type { KeyPath, RecipeProblem } from './recipe-problem.ts'
import { describeExpectation, keysAt, schemaAt } from './schema-map.ts'

type Issue = z.core.$ZodIssue

/** Keys that people look for here, and what to say in their place. */
const INSTEAD: Partial<Record<string, string>> = {
  name: 'a recipe is named by its file',
  'evaluate.quickEvery': 'reinforce.evaluateEvery says how often',
}

/** zod's issues in the words of a recipe's reader: one problem for each key. */
export function explainIssues(issues: readonly Issue[], value: unknown): RecipeProblem[] {
  return issues.flatMap((issue) => {
    const path = issue.path.filter((key): key is string | number => typeof key !== 'symbol')
    if (issue.code === 'invalid_key') return [invalidName(issue, path)]
    if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey([...path, key], value))
    return [wrongValue(issue, path, value)]
  })
}

function unknownKey(path: KeyPath, value: unknown): RecipeProblem {
  const key = String(path.at(-1))
  const known = keysAt(path.slice(0, -1), value)
  const near = nearestName(key, known)
  const hint = INSTEAD[path.join('.')] ?? (near === null ? `known here: ${known.join(', ')}` : `did you mean ${near}?`)
  return { rule: 'unknown-key', path, message: 'is not a key of a recipe', hint, at: 'key' }
}

/** A name that the recipe's writer chose. */
function invalidName({ issues }: z.core.$ZodIssueInvalidKey, path: KeyPath): RecipeProblem {
  const message = issues[0]?.message ?? 'expected another name'
  return { rule: 'range', path, message: `${message}, got ${show(path.at(-1))}`, hint: null, at: 'key' }
}

function wrongValue(issue: Issue, path: KeyPath, value: unknown): RecipeProblem {
  const node = schemaAt(path, value)
  const got = valueAt(value, path)
  const expected = discriminators(issue) ?? (node === null ? issue.message : describeExpectation(node))
  const rule = got === undefined ? 'missing' : ruleOf(issue)
  const message = `expected ${expected}, got ${got === undefined ? 'nothing' : show(got)}`
  return { rule, path, message, hint: choiceHint(issue, got) ?? node?.description ?? null, at: 'value' }
}

/** A `kind` that chooses nothing: the schema at that path knows only one of the kinds. */
function discriminators(issue: Issue): string | null {
  if (issue.code !== 'invalid_union' || !('options' in issue) || !Array.isArray(issue.options)) return null
  return `one of ${issue.options.map(String).join(', ')}`
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
