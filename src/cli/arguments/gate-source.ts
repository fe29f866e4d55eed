import { basename, resolve } from 'node:path'
import { stringify } from 'yaml'
import { LonghaulError } from '../../contracts/errors.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import { parseSettings, readRecipeArgument, type RecipeOptions } from './recipe-argument.ts'

export interface GateSourceOptions {
  recipe?: string
  set?: string[]
  seed?: number
  suite?: 'train' | 'heldOut'
  repeats?: number
}

export interface GateSource {
  /** Input of the workflow. */
  request: { recipe: string; recipeText?: string; overrides?: Record<string, unknown>; which: 'train' | 'heldOut' }
  source: SuiteSource
}

/** The minimal recipe for a file of rows: the defaults of every recipe, such as 2 CPUs and 8 GiB. */
const PLAIN = { model: { base: 'none' }, evaluate: { attempts: 1, maxTurns: 1, context: 1 } }

/**
 * What to gate: a file of rows, under the limits of the named recipe if any; or a suite of a recipe, `demo` or `demo:train`.
 * @throws LonghaulError `Config.Invalid`, `Config.NotFound`
 */
export async function readGateSource(argument: string | undefined, options: GateSourceOptions): Promise<GateSource> {
  const { repeats, set = [] } = options
  const settings = [...set, ...(repeats === undefined ? [] : [`data.gate.repeats=${repeats}`])]
  if (isRowsFile(argument)) return rowsSource(argument, options, settings)

  const { name, suffix } = /^(?<name>.+?)(?::(?<suffix>train|heldOut))?$/.exec(argument ?? '')?.groups ?? {}
  if (name !== undefined && options.recipe !== undefined) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected --recipe only beside a file of rows: the argument names a recipe itself',
      details: { argument: name, recipe: options.recipe },
    })
  }
  const which = (suffix as 'train' | 'heldOut' | undefined) ?? options.suite ?? 'heldOut'
  const { loaded, request } = await readRecipeArgument({
    ...seedOf(options),
    recipe: name ?? options.recipe ?? 'demo',
    set: settings,
  })
  return { request: { ...request, which }, source: loaded.recipe.data[which] }
}

export function isRowsFile(argument: string | undefined): argument is string {
  return argument !== undefined && /\.(?:jsonl?|ndjson)$/.test(argument)
}

async function rowsSource(path: string, options: GateSourceOptions, set: string[]): Promise<GateSource> {
  // Absolute, since workers have another working directory.
  const source: SuiteSource = { kind: 'rows', path: resolve(path), limit: null }
  const { recipe } = options
  const name = basename(path)
    .replace(/\.[a-z]+$/, '')
    .replaceAll(/[^A-Za-z0-9._-]/g, '-')
  const settings = recipe === undefined ? PLAIN : await settingsOf({ ...seedOf(options), recipe, set })
  const text = stringify({
    ...settings,
    data: { ...dataOf(settings), train: source, heldOut: source, filters: {} },
    evaluate: { ...PLAIN.evaluate },
  })
  const overrides = parseSettings(set)
  return {
    request: {
      recipe: /^[A-Za-z0-9]/.test(name) ? name : `rows-${name}`,
      recipeText: text,
      ...(set.length === 0 ? {} : { overrides }),
      which: 'heldOut',
    },
    source,
  }
}

/** A recipe's settings, as a file would contain them. */
async function settingsOf(options: RecipeOptions): Promise<Record<string, unknown>> {
  const { loaded } = await readRecipeArgument(options)
  const { name: _, ...settings } = loaded.recipe
  return { ...settings }
}

function dataOf(settings: Record<string, unknown>): Record<string, unknown> {
  const { gate } = (settings['data'] ?? {}) as Record<string, unknown>
  return gate === undefined ? {} : { gate }
}

function seedOf({ seed }: GateSourceOptions): { seed?: number } {
  return seed === undefined ? {} : { seed }
}
