import { lstat, readFile, unlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { type Command, Option } from 'commander'
import { loadRecipe, recipeNames } from '../../adapters/recipes/load-recipe.ts'
import { requireRecipeName } from '../../adapters/recipes/pushed-recipes.ts'
import { recipeSchemaText, SCHEMA_FILE, SCHEMA_TITLE } from '../../adapters/recipes/schema-map.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { errnoOf, makeDirectory } from '../../platform/files.ts'
import { packageVersion } from '../../platform/code-version.ts'
import { shellWord } from '../../platform/run-command.ts'
import { packageFile } from '../../stack/paths.ts'
import { environmentExample } from '../arguments/environment-example.ts'
import { CI_SYSTEMS, ciFile, type CiSystem, scheduleExample } from '../arguments/project-files.ts'
import { examples, jsonOption } from '../arguments/options.ts'
import { recipeDirs } from '../arguments/recipe-argument.ts'
import type { CommandContext } from '../command-context.ts'

interface InitOptions {
  from: string
  name?: string
  ci?: CiSystem
  dryRun?: true
  json?: true
}

export function addInit(program: Command, { console }: CommandContext): void {
  program
    .command('init')
    .argument('[directory]', 'where to write; created if missing', '.')
    .description(
      'write a recipe to start from with its schema, a schedule, an example of all variables, a CI file; overwrites nothing',
    )
    .option('--from <recipe>', 'the recipe to begin with: longhaul recipe list shows them', 'mini')
    .option('--name <name>', 'name of the file and of the runs (default: my-RECIPE)')
    .addOption(new Option('--ci <system>', 'write its workflow file too').choices(CI_SYSTEMS))
    .option('--dry-run', 'only say what would be written')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul init',
        'longhaul init nights --from nightly-swe-rebench',
        'longhaul init --from qwen3-4b-one-gpu --name weekly',
        'longhaul init --from nightly --ci github',
      ),
    )
    .action(async (directory: string, { from, name = `my-${from}`, ci, dryRun, json }: InitOptions) => {
      requireRecipeName(name)
      const { text, recipe } = await readStart({ from, name })
      const path = join(directory, `${name}.yaml`)
      const schema = join(directory, SCHEMA_FILE)
      const schedules = join(directory, 'schedules.yaml')
      const files = [
        { path: schema, text: recipeSchemaText() },
        { path, text },
      ]
      const job = ci === undefined ? null : await ciFile({ system: ci, recipe: path })
      const jobPath = job === null ? null : relative('.', job.path)
      // A project has one of each, whatever its recipes: existing files stay.
      const more = [
        { path: join(directory, '.env.example'), text: environmentExample() },
        { path: schedules, text: scheduleExample(name) },
        ...(job === null || jobPath === null ? [] : [{ path: jobPath, text: job.text }]),
      ]
      const { written, kept } = await writeNew({ directory, files, more, dryRun: dryRun === true })
      const next = { ...nextCommands(path, recipe), ...nextOfMore({ written, schedules, jobPath }) }
      if (json === true) {
        console.record({ recipe: path, schema, from, written, kept, next, ...(dryRun === true ? { dryRun } : {}) })
      } else console.out(formatWritten({ written, kept, next, dryRun: dryRun === true }))
    })
}

/** The text of a recipe under another name, checked under that name. */
async function readStart({ from, name }: { from: string; name: string }): Promise<{ text: string; recipe: Recipe }> {
  const { text: source } = await loadRecipe({ name: from, dirs: recipeDirs() })
  const builtIn = await recipeNames([packageFile('recipes')])
  if (builtIn.includes(name)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected --name to be none of the built-in recipes, which keep their names, got ${name}`,
    })
  }
  const lines = source.split('\n').filter((line) => !line.startsWith('# yaml-language-server:'))
  const text = [
    `# yaml-language-server: $schema=./${SCHEMA_FILE}`,
    '#',
    `# Made by longhaul init --from ${from}, Longhaul ${packageVersion()}. Change what you like; editors and longhaul recipe check know every key, and`,
    '# longhaul recipe show prints those that are left out too. The file’s name becomes part of the names of runs. Relative paths are',
    '# looked for in the workers’ folders of recipes (LONGHAUL_RECIPES, then the built-in ones); an absolute path is the same everywhere.',
    ...(lines[0]?.startsWith('#') === true ? [] : ['#']),
    ...lines,
  ].join('\n')
  const { recipe } = await loadRecipe({ name, text })
  return { text, recipe }
}

interface NewFile {
  path: string
  text: string
}

/**
 * Writes all of the files or none of them. Replaces a schema of an earlier version; every other existing file stays.
 * @param input.more files that are written only if absent
 * @returns the paths that were or would be written, and the existing ones of `more`
 * @throws LonghaulError `Config.Invalid` if a file is in the way or the directory is not writable
 */
async function writeNew({
  directory,
  files,
  more,
  dryRun,
}: {
  directory: string
  files: readonly NewFile[]
  more: readonly NewFile[]
  dryRun: boolean
}): Promise<{ written: string[]; kept: string[] }> {
  const toWrite: (NewFile & { before: string | null })[] = []
  for (const file of files) {
    const before = await textAt(file.path)
    if (before === file.text && basename(file.path) === SCHEMA_FILE) continue
    if (before !== null && !isOurSchema(file.path, before)) throw inTheWay(file.path)
    toWrite.push({ ...file, before })
  }
  const kept: string[] = []
  for (const file of more) {
    if (await isThere(file.path)) kept.push(file.path)
    else toWrite.push({ ...file, before: null })
  }
  const written = toWrite.map(({ path }) => path)
  if (dryRun) return { written, kept }
  const done: (NewFile & { before: string | null })[] = []
  try {
    for (const file of toWrite) {
      await makeDirectory(dirname(file.path))
      // `wx` follows no link, and overwrites no file that has appeared meanwhile.
      await writeFile(file.path, file.text, { flag: file.before === null ? 'wx' : 'w' })
      done.push(file)
    }
  } catch (cause) {
    for (const { path, before } of done)
      await (before === null ? unlink(path) : writeFile(path, before)).catch(() => undefined)
    if (errnoOf(cause) === 'EEXIST' && toWrite.length > done.length)
      throw inTheWay(toWrite[done.length]?.path ?? directory)
    throw unwritable(directory, cause)
  }
  return { written, kept }
}

/** Also true for a dangling link. */
async function isThere(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    throw unwritable(path, error)
  }
}

/** Null if nothing is there. A link, a folder or any other kind of file is in the way. */
async function textAt(path: string): Promise<string | null> {
  try {
    const { isFile } = await lstat(path).then((found) => ({ isFile: found.isFile() }))
    if (!isFile) throw inTheWay(path)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof LonghaulError) throw error
    if (errnoOf(error) === 'ENOENT') return null
    throw unwritable(path, error)
  }
}

function isOurSchema(path: string, text: string): boolean {
  if (basename(path) !== SCHEMA_FILE) return false
  try {
    return (JSON.parse(text) as { title?: unknown } | null)?.title === SCHEMA_TITLE
  } catch {
    return false
  }
}

function inTheWay(path: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `${path} is there already and stays as it is: give --name or another directory. Nothing was written`,
    details: { path },
  })
}

function unwritable(path: string, cause: unknown): LonghaulError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a directory that may be written (${reason}). Nothing was written`,
    details: { path },
    cause,
  })
}

function nextCommands(path: string, recipe: Recipe): Record<string, string> {
  const file = shellWord(path.includes('/') ? path : `./${path}`)
  const isTraining = recipe.rft !== null || recipe.reinforce !== null
  return {
    'check it': `longhaul recipe check ${file}`,
    'see every key': `longhaul recipe show ${file}`,
    'start the stack': 'longhaul up',
    'gate its tasks': `longhaul tasks gate --recipe ${file}`,
    'run it': `longhaul ${isTraining ? 'train' : 'evaluate'} --recipe ${file}`,
    'by its name from everywhere': `longhaul recipe push ${file}`,
  }
}

/** Commands for new files only: existing ones belong to the user. */
function nextOfMore(input: { written: string[]; schedules: string; jobPath: string | null }): Record<string, string> {
  const { written, schedules, jobPath } = input
  const isJobNew = jobPath !== null && written.includes(jobPath)
  return {
    ...(written.includes(schedules)
      ? { 'every night': `longhaul schedule apply ${shellWord(schedules)} --dry-run` }
      : {}),
    ...(isJobNew ? { 'have it in CI': 'npm install --save-dev longhaul, and commit package.json with its lock' } : {}),
    'see what is missing': 'longhaul doctor',
  }
}

function formatWritten({
  written,
  kept,
  next,
  dryRun,
}: {
  written: string[]
  kept: string[]
  next: Record<string, string>
  dryRun: boolean
}): string {
  const width = Math.max(...Object.keys(next).map((what) => what.length)) + 2
  return [
    ...written.map((path) => `${dryRun ? 'would write' : 'wrote'} ${path}`),
    ...kept.map((path) => `${dryRun ? 'would keep' : 'kept'} ${path}, which was there`),
    '',
    ...Object.entries(next).map(([what, command]) => `${what.padEnd(width)}${command}`),
  ].join('\n')
}
