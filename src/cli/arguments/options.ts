import { type Command, InvalidArgumentError, Option } from 'commander'
import type { OnInterrupt } from '../commands/follow-run.ts'

export const jsonOption = (): Option => new Option('--json', 'print only JSON lines on stdout')

export function integer({ name, min = 0 }: { name: string; min?: number }): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (text.trim() !== '' && Number.isInteger(value) && value >= min) return value
    throw new InvalidArgumentError(`Expected ${name} to be an integer ≥ ${min}, got ${JSON.stringify(text)}.`)
  }
}

export function share(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value >= 0 && value <= 1) return value
  throw new InvalidArgumentError(`Expected to be a share between 0 and 1, got ${JSON.stringify(text)}`)
}

/** The rule about a baseline, spelled alike wherever there is one. */
export function withRegressionOptions(command: Command): Command {
  return command
    .option('--max-regression <y>', 'exit 4 when a loss of pass@1 larger than this is proven', share)
    .option('--confidence <c>', 'level of the interval', confidence, 0.95)
    .option('--strict', 'exit 3 when such a loss cannot be excluded')
}

function confidence(text: string): number {
  const value = Number(text)
  if (value >= 0.5 && value <= 0.9999) return value
  throw new InvalidArgumentError(`Expected to be a level between 0.5 and 0.9999, got ${JSON.stringify(text)}`)
}

export function collect(text: string, previous: string[] = []): string[] {
  return [...previous, text]
}

export function withRecipeOptions(command: Command, recipe: string): Command {
  return command
    .option('--recipe <name|file>', 'name of a recipe, or a YAML file', recipe)
    .option('--seed <n>', 'another seed for every random choice', integer({ name: '--seed' }))
    .option('-c, --set <key=value>', 'override a key of the recipe, repeatable: -c rft.tasks=4', collect)
}

/** What `withRunOptions` adds. */
export interface RunOptions {
  run?: string
  fresh?: true
  detach?: true
  onInterrupt?: OnInterrupt
  json?: true
}

export function withRunOptions(command: Command): Command {
  return command
    .option('--run <name>', 'name the run, or continue the run of that name')
    .option('--fresh', 'start a new run even if a run of the same request is open')
    .option('--detach', 'start and return at once')
    .addOption(
      new Option('--on-interrupt <what>', 'what the first Ctrl-C does (default: detach; in CI cancel)').choices([
        'detach',
        'cancel',
      ]),
    )
    .addOption(jsonOption())
}

export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}\n`
}
