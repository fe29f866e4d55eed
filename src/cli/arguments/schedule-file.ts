import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { type AlarmsRequest, OVERLAPS, type ScheduleRequest } from '../../client/index.ts'
import { pushRecipe } from '../../adapters/recipes/pushed-recipes.ts'
import { parseRecipeText, type RecipeText } from '../../adapters/recipes/recipe-text.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readInputFile } from '../../platform/input-file.ts'
import { openStore } from '../local-stack.ts'
import { readRecipeArgument } from './recipe-argument.ts'

const DURATION = z.string().regex(/^(0|[1-9][0-9]{0,5}) ?(s|m|h|d)$/, 'expected a duration such as 30s, 10m, 6h or 2d')

const SCHEDULE = z.strictObject({
  recipe: z.string().min(1),
  action: z.enum(['evaluate', 'train']).optional(),
  cron: z.string().optional(),
  timezone: z.string().optional(),
  policy: z.string().min(1).optional(),
  overrides: z.record(z.string(), z.unknown()).optional(),
  overlap: z.enum(Object.keys(OVERLAPS) as [keyof typeof OVERLAPS]).optional(),
  catchupWindow: DURATION.optional(),
  jitter: DURATION.optional(),
  executionTimeout: DURATION.optional(),
  paused: z.boolean().optional(),
})

const VARIABLE = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_]{0,99}$/,
    'expected the name of an environment variable of the control workers, no value',
  )

const ALARMS = z.strictObject({
  urlVariable: VARIABLE,
  secretVariable: VARIABLE.optional(),
  template: z.union([z.enum(['json', 'slack', 'discord']), z.record(z.string(), z.unknown())]).optional(),
  blockerMinutes: z.int().min(1).optional(),
  everyMinutes: z.int().min(1).optional(),
  runs: z.enum(['scheduled', 'all']).optional(),
})

const FILE = z.strictObject({ schedules: z.record(z.string(), SCHEDULE), alarms: ALARMS.optional() })

export interface ScheduleFile {
  schedules: ScheduleRequest[]
  /** Null if the file has no alarms. */
  alarms: AlarmsRequest | null
}

/**
 * Reads `schedules:` by name, and `alarms:`. The path of a recipe file is relative to this file; `pushScheduledRecipe` gives it a name.
 * Every recipe is read and checked here, so that a mistake costs no night. @throws LonghaulError `Config.Invalid`, `Config.NotFound`
 */
export async function readScheduleFile(path: string): Promise<ScheduleFile> {
  const file = await readYaml(path)
  const found = FILE.safeParse(file.value)
  if (!found.success) {
    const issues = found.error.issues.map((issue) => `  ${describeIssue(issue, file)}`)
    throw new LonghaulError({ code: 'Config.Invalid', message: `Expected schedules in ${path}:\n${issues.join('\n')}` })
  }
  const requests: ScheduleRequest[] = []
  for (const [id, { recipe, overrides = {}, ...schedule }] of Object.entries(found.data.schedules)) {
    requests.push({
      id,
      ...withoutAbsent(schedule),
      ...(await readScheduledRecipe({ recipe: besideFile(path, recipe), overrides })),
    })
  }
  const { alarms } = found.data
  return { schedules: requests, alarms: alarms === undefined ? null : (withoutAbsent(alarms) as AlarmsRequest) }
}

/** `schedules.nightly.cron (line 3): expected text, got 5`. */
function describeIssue(issue: z.core.$ZodIssue, { value, locate }: RecipeText): string {
  const keys = issue.path.filter((key) => typeof key !== 'symbol')
  const got = keys.reduce<unknown>(
    (at, key) => (at as Record<string | number, unknown> | null | undefined)?.[key],
    value,
  )
  const position = got === undefined ? null : locate(keys, 'key')
  const place = `${keys.join('.') || '(file)'}${position === null ? '' : ` (line ${position.line})`}`
  if (issue.code === 'unrecognized_keys')
    return `${place}: knows no ${issue.keys.join(', ')}: leave it out (docs/nightly.md)`
  return `${place}: ${wanted(issue)}, got ${keys[0] === 'alarms' ? showAlarmValue(got) : show(got)}`
}

function show(got: unknown): string {
  return got === undefined ? 'nothing' : JSON.stringify(got).slice(0, 80)
}

/** A receiver's address or key may stand where the name of its variable belongs, so texts are not repeated. */
function showAlarmValue(got: unknown): string {
  if (typeof got === 'string') return 'another text'
  return typeof got === 'object' && got !== null ? 'another value' : show(got)
}

function wanted(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type') return `expected ${KINDS[issue.expected] ?? issue.expected}`
  if (issue.code === 'invalid_value') return `expected one of ${issue.values.map(String).join(', ')}`
  return issue.message.replace(/^[A-Z]/, (letter) => letter.toLowerCase())
}

const KINDS: Partial<Record<string, string>> = {
  string: 'text',
  object: 'a mapping',
  record: 'a mapping of names',
  boolean: 'true or false',
  int: 'an integer',
}

function withoutAbsent(given: object): object {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

/** The recipe that a schedule starts: a name that the workers know, or the text of a file that must still be pushed. */
export async function readScheduledRecipe({
  recipe,
  set,
  overrides = {},
}: {
  recipe: string
  /** `key.path=value`, in order. */
  set?: string[]
  /** As in a file of schedules. */
  overrides?: Record<string, unknown>
}): Promise<Pick<ScheduleRequest, 'recipe' | 'recipeText' | 'overrides'>> {
  const { request } = await readRecipeArgument({ recipe, overrides, ...(set === undefined ? {} : { set }) })
  return request
}

/**
 * Pushes a recipe file under a name that every control worker knows: the file's name and part of its text's hash, so that a new text gets a
 * new name, which the schedule's difference shows. @param options.dryRun only returns the name
 * @throws LonghaulError `Config.Invalid` if the store is not writable
 */
export async function pushScheduledRecipe<T extends Pick<ScheduleRequest, 'recipe' | 'recipeText'>>(
  { recipeText, ...request }: T,
  { dryRun }: { dryRun: boolean },
): Promise<Omit<T, 'recipeText'>> {
  if (recipeText === undefined) return request
  const name = `${request.recipe.slice(0, 70)}-${sha256Hex(recipeText).slice(0, 8)}`
  if (!dryRun) await pushRecipe(await openStore({ creates: true }), { name, text: recipeText, builtIn: [] })
  return { ...request, recipe: name }
}

function besideFile(path: string, recipe: string): string {
  return recipe.includes('/') || /\.ya?ml$/.test(recipe) ? resolve(dirname(path), recipe) : recipe
}

async function readYaml(path: string): Promise<RecipeText> {
  const file = parseRecipeText(await readInputFile({ path, what: 'a file of schedules' }))
  const [fault] = file.syntax
  if (fault === undefined) return file
  const { line, column } = fault.position
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected YAML at ${path}:${line}:${column}: ${fault.message}`,
  })
}
