import { relative, join, dirname, resolve } from 'node:path'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { chatSchema, recipeFileSchema } from '../../contracts/recipe.schema.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { canonicalHash } from '../../platform/hash.ts'
import { readInputFile } from '../../platform/input-file.ts'
import { checkCombinations } from './combinations.ts'
import { defaultRecompute } from './trainer-combinations.ts'
import { nearestName } from '../../domain/near-names.ts'
import { explainIssues, formatProblems, type KeyPath, type RecipeProblem } from './explain-issues.ts'
import { type PushedRecipes, requireRecipeName } from './pushed-recipes.ts'
import { parseRecipeText } from './recipe-text.ts'
import { readdir, readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { SamplingOptions } from '../../contracts/episodes.types.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'

export interface LoadRecipeInput {
  /** File name without extension; part of run names. */
  name: string
  /** YAML text used instead of the file. */
  text?: string
  /** Directories that are searched in order. */
  dirs?: readonly string[]
  /** Searched after `dirs`, so that a built-in recipe keeps its name. */
  pushed?: PushedRecipes
  /** Merged deeply over the file. */
  overrides?: Record<string, unknown>
}

export interface LoadedRecipe {
  recipe: Recipe
  /** SHA-256 of the canonical JSON of the resolved recipe. Comments, key order and explicit defaults do not change it. */
  hash: string
  text: string
  /** Null for a recipe given as text. */
  path: string | null
}

/**
 * Reads, merges and checks a recipe. Every key of the result is present.
 * @throws LonghaulError `Config.NotFound`; `Config.Invalid` with all problems, each with line, column and hint
 */
export async function loadRecipe({
  name,
  text,
  dirs = [],
  pushed,
  overrides = {},
}: LoadRecipeInput): Promise<LoadedRecipe> {
  // Also the name of a text: a run named after it could neither be steered nor read, because no command takes such a name.
  requireRecipeName(name, text === undefined ? '' : ', which begins the names of its runs: rename it')
  const source = text === undefined ? await findRecipe({ name, dirs, pushed }) : { text, path: null }
  const file = parseRecipeText(source.text)
  const label = source.path === null ? `${name}.yaml` : shortPath(source.path)
  const refuse = (problems: readonly RecipeProblem[]): never => {
    throw new LonghaulError({ code: 'Config.Invalid', message: formatProblems({ problems, file, label, overrides }) })
  }
  if (file.syntax.length > 0) refuse(file.syntax)

  const merged = mergeOverrides(file.value, overrides)
  const unusable = unusableTexts(merged, [])
  if (unusable.length > 0) refuse(unusable)
  const parsed = recipeFileSchema.safeParse(merged)
  if (!parsed.success) return refuse(explainIssues(parsed.error.issues, merged))
  const settings = parsed.data
  if (settings.evaluate.sampling === 'modelDefault') {
    settings.evaluate.modelSampling ??= await readModelSampling({ base: settings.model.base, recipePath: source.path })
  }
  const { trainer } = settings
  trainer.recompute ??= defaultRecompute(settings)
  // A default that is spelled out keeps the hash.
  if (trainer.checkpoint?.everySteps === 1 && trainer.checkpoint.everyS === 0) delete trainer.checkpoint
  if (settings.policyServer.kind === 'chat') settings.policyServer.chat ??= chatSchema.parse({})
  const problems = checkCombinations(settings)
  if (problems.length > 0) refuse(problems)

  const recipe: Recipe = { name, ...settings }
  return { recipe, hash: canonicalHash(recipe), text: source.text, path: source.path }
}

/** Returns the path as a user in the working directory would type it. */
function shortPath(path: string): string {
  const short = relative(process.cwd(), path)
  return short.startsWith('..') ? path : short
}

const EXTENSION = '.yaml'

/**
 * Finds a recipe by name: the first of `dirs` that contains `<name>.yaml`, then the recipe pushed under that name.
 * @throws LonghaulError `Config.NotFound` with the existing names
 */
async function findRecipe({
  name,
  dirs,
  pushed,
}: {
  name: string
  dirs: readonly string[]
  pushed: PushedRecipes | undefined
}): Promise<{ text: string; path: string | null }> {
  for (const dir of dirs) {
    const path = join(dir, `${name}${EXTENSION}`)
    const text = await readRecipeFile(path).catch(notThere)
    if (text !== null) return { text, path }
  }
  const stored = (await pushed?.read(name)) ?? null
  if (stored !== null) return { text: stored, path: null }
  const names = [...(await recipeNames(dirs)), ...((await pushed?.names()) ?? [])]
  const near = nearestName(name, names)
  throw new LonghaulError({
    code: 'Config.NotFound',
    message:
      `No recipe is called ${JSON.stringify(name)}${near === null ? '.' : `; did you mean ${near}?`} ` +
      `Known recipes: ${names.join(', ') || 'none'} (in ${dirs.join(', ') || 'no directory'}${pushed === undefined ? '' : ', and pushed'}). ` +
      'Make one known to every worker: longhaul recipe push FILE',
  })
}

export async function recipeNames(dirs: readonly string[]): Promise<string[]> {
  const listed = await Promise.all(dirs.map((dir) => readdir(dir).catch(() => [])))
  const names = listed.flat().filter((file) => file.endsWith(EXTENSION))
  return [...new Set(names.map((file) => file.slice(0, -EXTENSION.length)))].toSorted()
}

/** The limit of a workflow's input, which contains a recipe given as text. */
const MAX_RECIPE_BYTES = 1024 * 1024

/** @throws LonghaulError `Config.NotFound`, `Config.Invalid` with the reason */
export function readRecipeFile(path: string): Promise<string> {
  return readInputFile({ path, what: 'a recipe file', maxBytes: MAX_RECIPE_BYTES })
}

function notThere(error: unknown): null {
  if (isLonghaulError(error) && error.code === 'Config.NotFound') return null
  throw error
}

/** Mappings merge key by key; every other value, including lists, replaces the old one. The arguments are not modified. */
function mergeOverrides(base: unknown, overrides: unknown): unknown {
  if (!isMapping(base) || !isMapping(overrides)) return overrides
  const merged = new Map(Object.entries(base))
  for (const [key, value] of Object.entries(overrides)) {
    merged.set(key, merged.has(key) ? mergeOverrides(merged.get(key), value) : value)
  }
  // fromEntries defines own properties, so a key like __proto__ stays data.
  return Object.fromEntries(merged)
}

/** No file name, command or variable can hold such text, and a record would not have the bytes that its hash is of. */
function unusableTexts(value: unknown, path: KeyPath): RecipeProblem[] {
  if (typeof value === 'string') {
    if (!value.includes('\0') && value.isWellFormed()) return []
    const what = value.includes('\0') ? 'a NUL character' : 'half of a character (a lone surrogate)'
    const message = `expected text, got text with ${what}`
    return [{ rule: 'range', path, message, hint: 'remove the escape that makes it', at: 'value' }]
  }
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, item]) => {
    const at: KeyPath = [...path, Array.isArray(value) ? Number(key) : key]
    return [...unusableTexts(key, at), ...unusableTexts(item, at)]
  })
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Only the fields that affect decoding; a published file contains more. */
const generationConfig = z.object({
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.number().nullish(),
  min_p: z.number().nullish(),
  repetition_penalty: z.number().nullish(),
})

/**
 * Reads the decoding options in a base model's `generation_config.json`, with neutral values for missing ones.
 * @returns null if the base is not a directory with such a file
 */
async function readModelSampling({
  base,
  recipePath,
}: {
  base: string
  recipePath: string | null
}): Promise<SamplingOptions | null> {
  const directory = recipePath === null ? resolve(base) : resolve(dirname(recipePath), base)
  const text = await readFile(resolve(directory, 'generation_config.json'), 'utf8').catch(() => null)
  if (text === null) return null
  const parsed = generationConfig.safeParse(parseJson(text))
  if (!parsed.success) return null
  const { temperature, top_p, top_k, min_p, repetition_penalty } = parsed.data
  return {
    ...NEUTRAL_SAMPLING,
    temperature: temperature ?? NEUTRAL_SAMPLING.temperature,
    topP: top_p ?? NEUTRAL_SAMPLING.topP,
    // Hugging Face uses 0 for "off", servers use −1.
    topK: top_k === undefined || top_k === null || top_k === 0 ? NEUTRAL_SAMPLING.topK : top_k,
    minP: min_p ?? NEUTRAL_SAMPLING.minP,
    repetitionPenalty: repetition_penalty ?? NEUTRAL_SAMPLING.repetitionPenalty,
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
