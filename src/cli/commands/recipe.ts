import type { Command } from 'commander'
import { stringify } from 'yaml'
import type { CommandContext } from '../command-context.ts'
import { collect, examples, integer, jsonOption } from '../arguments/options.ts'
import { readFile } from 'node:fs/promises'
import { basename, extname } from 'node:path'
import { loadRecipe, readRecipeFile, recipeNames } from '../../adapters/recipes/load-recipe.ts'
import { pushedRecipes, pushRecipe } from '../../adapters/recipes/pushed-recipes.ts'
import { recipeSchemaText, SCHEMA_FILE, SCHEMA_TITLE } from '../../adapters/recipes/schema-map.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { packageFile } from '../../stack/paths.ts'
import { readRecipeArgument, recipeDirs } from '../arguments/recipe-argument.ts'
import { openStore, openStoreIfThere } from '../local-stack.ts'
import { requireWritable, writeResult } from '../output/require-writable.ts'

interface RecipeCommandOptions {
  seed?: number
  set?: string[]
  json?: true
}

export function addRecipe(program: Command, { console }: CommandContext): void {
  const recipe = program.command('recipe').description('check, show, list and push recipes')
  // No --recipe: the recipe is the argument here.
  const options = (command: Command): Command =>
    command
      .option('--seed <n>', 'another seed', integer({ name: '--seed' }))
      .option('-c, --set <key=value>', 'override a key', collect)
  options(recipe.command('check'))
    .argument('<recipe>', 'name of a recipe, or a YAML file')
    .description('report every mistake with its line; exit 1 if there is one')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul recipe check demo', 'longhaul recipe check ./my.yaml -c rft.batch=4'))
    .action(async (name: string, given: RecipeCommandOptions) => {
      const { loaded } = await readRecipeArgument({ ...given, recipe: name })
      if (given.json === true) console.record({ recipe: loaded.recipe.name, hash: loaded.hash, path: loaded.path })
      else console.out(`${loaded.path ?? name} is fine (${loaded.hash.slice(0, 12)})`)
    })
  options(recipe.command('show'))
    .argument('<recipe>', 'name of a recipe, or a YAML file')
    .description('print the resolved recipe with every default filled in')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul recipe show paper-72b', 'longhaul recipe show demo --json | jq .recipe.rft'),
    )
    .action(async (name: string, given: RecipeCommandOptions) => {
      const { loaded } = await readRecipeArgument({ ...given, recipe: name })
      if (given.json === true) console.record({ hash: loaded.hash, recipe: loaded.recipe })
      else console.out(`# resolved from ${loaded.path ?? name}, hash ${loaded.hash}\n${stringify(loaded.recipe)}`)
    })
  addPush(recipe, console)
  addSchema(recipe, console)
  recipe
    .command('list')
    .description('list the recipes that can be started by name')
    .addOption(jsonOption())
    .action(async ({ json }: { json?: true }) => {
      const builtIn = await recipeNames(recipeDirs())
      const store = await openStoreIfThere((message) => console.err(`without pushed recipes: ${message}`))
      const pushed = store === null ? [] : await pushedRecipes(store).names()
      if (json === true) console.record({ builtIn, pushed })
      else console.out([...builtIn, ...pushed.map((name) => `${name} (pushed)`)].join('\n'))
    })
}

function addPush(recipe: Command, console: CommandContext['console']): void {
  recipe
    .command('push')
    .argument('<file>', 'YAML file')
    .option('--name <name>', 'start it by this name (default: the file without its ending)')
    .description(
      'store a recipe permanently under a name that the Temporal UI, schedules and every control worker can use',
    )
    .option('--dry-run', 'check it, and say whether it would be stored')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul recipe push ./mine.yaml', 'longhaul recipe push ./mine.yaml --name weekly'),
    )
    .action(async (file: string, given: { name?: string; dryRun?: true; json?: true }) => {
      const text = await readRecipeFile(file)
      const name = given.name ?? basename(file, extname(file))
      const { hash } = await loadRecipe({ name, text })
      const dryRun = given.dryRun === true
      const store = await openStore({ creates: true, writes: !dryRun })
      const builtIn = await recipeNames([packageFile('recipes')])
      const { changed, key } = await pushRecipe(store, { name, text, builtIn, dryRun })
      if (given.json === true) console.record({ name, hash, key, changed, ...(dryRun ? { dryRun } : {}) })
      else console.out(`${name} ${saidOf(changed, dryRun)} (${hash.slice(0, 12)}); start it with {"recipe": "${name}"}`)
    })
}

function addSchema(recipe: Command, console: CommandContext['console']): void {
  recipe
    .command('schema')
    .description('print the JSON Schema with which editors check recipes')
    .option('--output <file>', 'write it to this file; a schema of an earlier version is replaced')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `${examples(`longhaul recipe schema --output recipes/${SCHEMA_FILE}`, 'longhaul init')}
The first line of a recipe names it, relative to the recipe:
  # yaml-language-server: $schema=./${SCHEMA_FILE}
`,
    )
    .action(async ({ output, json }: { output?: string; json?: true }) => {
      const text = recipeSchemaText()
      if (output === undefined) {
        // A schema is one JSON document, with and without --json.
        if (json === true) console.record(JSON.parse(text) as object)
        else console.out(text)
        return
      }
      await requireWritable({ files: { '--output': output } })
      const before = await readFile(output, 'utf8').catch(() => null)
      if (before !== null && !before.includes(`"title": "${SCHEMA_TITLE}"`)) {
        throw new LonghaulError({
          code: 'Config.Invalid',
          message: `${output} already exists and is not a recipe schema`,
        })
      }
      const changed = before !== text
      if (changed) await writeResult(output, text)
      if (json === true) console.record({ output, changed })
      else console.out(changed ? `wrote ${output}` : `${output} is up to date`)
    })
}

function saidOf(changed: boolean, dryRun: boolean): string {
  if (!changed) return 'was pushed before, nothing changed'
  return dryRun ? 'would be pushed' : 'is pushed'
}
