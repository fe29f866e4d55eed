import type { Command } from 'commander'
import { stringify } from 'yaml'
import type { CommandContext } from '../command-context.ts'
import { collect, examples, integer, jsonOption } from '../arguments/options.ts'
import { readRecipeArgument } from '../arguments/recipe-argument.ts'

interface RecipeCommandOptions {
  seed?: number
  set?: string[]
  json?: true
}

export function addRecipe(program: Command, { console }: CommandContext): void {
  const recipe = program.command('recipe').description('check and show recipes')
  // The recipe itself is the argument here.
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
}
