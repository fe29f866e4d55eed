import { relative } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { chatSchema, recipeFileSchema } from '../../contracts/recipe.schema.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { canonicalHash } from '../../platform/canonical-hash.ts'
import { checkCombinations } from './combinations.ts'
import { explainIssues } from './explain-issues.ts'
import { findRecipe } from './find-recipe.ts'
import { formatProblems } from './format-problems.ts'
import { readModelSampling } from './model-sampling.ts'
import { mergeOverrides } from './overrides.ts'
import type { RecipeProblem } from './recipe-problem.ts'
import { parseRecipeText } from './recipe-text.ts'

export interface LoadRecipeInput {
  /** File name without extension; part of run names. */
  name: string
  /** YAML instead of the file; the name then only names it. */
  text?: string
  /** Searched in order. */
  dirs?: readonly string[]
  /** Deep-merged over the file. */
  overrides?: Record<string, unknown>
}

export interface LoadedRecipe {
  recipe: Recipe
  /** SHA-256 of the canonical JSON of the resolved recipe: comments, key order and spelled-out defaults change nothing. */
  hash: string
  text: string
  /** Null for a recipe given as text. */
  path: string | null
}

/**
 * Reads, merges and checks a recipe; every key of the result is present.
 * @throws LonghaulError `Config.NotFound`; `Config.Invalid` with every problem at once, each with line, column and hint
 */
export async function loadRecipe({ name, text, dirs = [], overrides = {} }: LoadRecipeInput): Promise<LoadedRecipe> {
  const source = text === undefined ? await findRecipe({ name, dirs }) : { text, path: null }
  const file = parseRecipeText(source.text)
  const label = source.path === null ? `${name}.yaml` : shortPath(source.path)
  const refuse = (problems: readonly RecipeProblem[]): never => {
    throw new LonghaulError({ code: 'Config.Invalid', message: formatProblems({ problems, file, label, overrides }) })
  }
  if (file.syntax.length > 0) refuse(file.syntax)

  const merged = mergeOverrides(file.value, overrides)
  const parsed = recipeFileSchema.safeParse(merged)
  if (!parsed.success) return refuse(explainIssues(parsed.error.issues, merged))
  const settings = parsed.data
  if (settings.evaluate.sampling === 'modelDefault') {
    settings.evaluate.modelSampling ??= await readModelSampling({ base: settings.model.base, recipePath: source.path })
  }
  if (settings.policyServer.kind === 'chat') settings.policyServer.chat ??= chatSchema.parse({})
  const problems = checkCombinations(settings)
  if (problems.length > 0) refuse(problems)

  const recipe: Recipe = { name, ...settings }
  return { recipe, hash: canonicalHash(recipe), text: source.text, path: source.path }
}

/** As a person in the working directory would type it. */
function shortPath(path: string): string {
  const short = relative(process.cwd(), path)
  return short.startsWith('..') ? path : short
}
