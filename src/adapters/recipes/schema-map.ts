import { z } from 'zod'
import { recipeFileSchema } from '../../contracts/recipe.schema.ts'
import type { KeyPath } from './explain-issues.ts'

/** The part of JSON Schema that zod writes for recipes. */
export interface SchemaNode {
  type?: string
  description?: string
  properties?: Record<string, SchemaNode>
  /** Schema of the values of a mapping with user-defined keys. */
  additionalProperties?: SchemaNode | boolean
  items?: SchemaNode | SchemaNode[]
  anyOf?: SchemaNode[]
  oneOf?: SchemaNode[]
  enum?: unknown[]
  const?: unknown
  minimum?: number
  exclusiveMinimum?: number
  maximum?: number
  exclusiveMaximum?: number
  minItems?: number
  maxItems?: number
  pattern?: string
  format?: string
}

/** The schema for editors. YAML language servers support draft 7. */
export function recipeJsonSchema(): SchemaNode {
  return z.toJSONSchema(recipeFileSchema, { io: 'input', target: 'draft-7' }) as SchemaNode
}

/** The file's name in `schemas` and beside a user's recipes. */
export const SCHEMA_FILE = 'recipe.schema.json'
export const SCHEMA_TITLE = 'Longhaul recipe'

/** Text of the generated file. Its `$id` is relative to its location, so it identifies exactly that file and needs no network. */
export function recipeSchemaText(): string {
  const { $schema, ...rest } = recipeJsonSchema() as SchemaNode & { $schema?: string }
  return `${JSON.stringify({ $schema, $id: SCHEMA_FILE, title: SCHEMA_TITLE, ...rest }, null, 2)}\n`
}

let known: SchemaNode | null = null

/** Returns the schema of a key; null for an unknown path. `value` selects among alternatives by their `kind`. */
export function schemaAt(path: KeyPath, value: unknown): SchemaNode | null {
  known ??= recipeJsonSchema()
  let node: SchemaNode | null = known
  let here = value
  for (const key of path) {
    node = childOf(node, key, here)
    if (node === null) return null
    here = typeof here === 'object' && here !== null ? (here as Record<string | number, unknown>)[key] : undefined
  }
  return node
}

/** Names that are allowed in the mapping at `path`. */
export function keysAt(path: KeyPath, value: unknown): string[] {
  const node = schemaAt(path, value)
  const here = path.reduce<unknown>((at, key) => (at as Record<string | number, unknown> | undefined)?.[key], value)
  return node === null ? [] : alternatives(node, here).flatMap(({ properties }) => Object.keys(properties ?? {}))
}

function childOf(node: SchemaNode, key: string | number, value: unknown): SchemaNode | null {
  for (const option of alternatives(node, value)) {
    if (typeof key === 'number') {
      const item = Array.isArray(option.items) ? option.items[key] : option.items
      if (item !== undefined) return item
      continue
    }
    if (option.properties !== undefined && Object.hasOwn(option.properties, key)) return option.properties[key] ?? null
    if (typeof option.additionalProperties === 'object') return option.additionalProperties
  }
  return null
}

function alternatives(node: SchemaNode, value: unknown): SchemaNode[] {
  const options = (node.oneOf ?? node.anyOf ?? [node]).flatMap((option) =>
    option.anyOf === undefined && option.oneOf === undefined ? [option] : alternatives(option, value),
  )
  const kind = (value as { kind?: unknown } | null | undefined)?.kind
  const chosen = options.filter(({ properties }) => properties?.['kind']?.const === kind)
  return kind !== undefined && chosen.length > 0 ? chosen : options
}

/** For example "an integer ≥ 1", "one of cpu, cuda", "an integer ≥ 1, or null". */
export function describeExpectation(node: SchemaNode): string {
  const options = node.anyOf ?? node.oneOf
  if (options !== undefined) {
    const kinds = options.flatMap(({ properties }) =>
      typeof properties?.['kind']?.const === 'string' ? [properties['kind'].const] : [],
    )
    if (kinds.length === options.length) return `a mapping with kind ${kinds.join(', ')}`
    return options.map(describeExpectation).join(', or ')
  }
  if (node.const !== undefined) return JSON.stringify(node.const)
  if (node.enum !== undefined) return `one of ${node.enum.map(String).join(', ')}`
  switch (node.type) {
    case 'integer':
      return `an integer${bounds(node)}`
    case 'number':
      return `a number${bounds(node)}`
    case 'boolean':
      return 'true or false'
    case 'object':
      return 'a mapping'
    case 'array':
      return node.minItems === undefined ? 'a list' : `a list of ${items(node)}`
    case 'null':
      return 'null'
    case 'string':
      if (node.format === 'uri') return 'an http or https address'
      if (node.format === 'date') return 'a date of the calendar such as 2025-03-31'
      return node.pattern === undefined ? 'text' : `text like ${node.pattern}`
    default:
      return 'another value'
  }
}

function items({ minItems, maxItems }: SchemaNode): string {
  return minItems === maxItems ? `${minItems} items` : `at least ${minItems} item${minItems === 1 ? '' : 's'}`
}

function bounds({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: SchemaNode): string {
  const parts = [
    minimum === undefined || minimum === Number.MIN_SAFE_INTEGER ? null : `≥ ${minimum}`,
    exclusiveMinimum === undefined ? null : `> ${exclusiveMinimum}`,
    maximum === undefined || maximum === Number.MAX_SAFE_INTEGER ? null : `≤ ${maximum}`,
    exclusiveMaximum === undefined ? null : `< ${exclusiveMaximum}`,
  ].filter((part) => part !== null)
  return parts.length === 0 ? '' : ` ${parts.join(' and ')}`
}
