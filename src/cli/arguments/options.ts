import { type Command, InvalidArgumentError, Option } from 'commander'
import { isRunPart, parseThreshold } from './evaluation-argument.ts'
import { isInCalendar } from '../../domain/instant.ts'
import { isBuildName, isHostName, isRunName, isScheduleId, isTaskId } from '../../contracts/keys.ts'
import { requireHttpAddress } from '../../platform/quote-address.ts'
import type { OnInterrupt } from '../commands/follow-run.ts'

export const jsonOption = (): Option => new Option('--json', 'print only JSON lines on stdout')

export const hubUrlOption = (): Option =>
  new Option('--hub-url <url>', 'another hub of the same layout (default: LONGHAUL_HUB_URL, else the public one)')

export const tokenVariableOption = (): Option =>
  new Option('--token-variable <name>', 'environment variable with a token of the hub, where one is needed').default(
    'HF_TOKEN',
  )

/** The hub that the option names, else the variable; null for the public hub. An empty variable counts as unset.
 *  @throws LonghaulError `Config.Invalid` */
export function hubUrlOf({ hubUrl }: { hubUrl?: string }): string | null {
  const text = hubUrl ?? (process.env['LONGHAUL_HUB_URL'] || null)
  const name = hubUrl === undefined ? 'LONGHAUL_HUB_URL' : '--hub-url'
  return text === null ? null : requireHttpAddress({ name, text, example: 'https://hub.example.org' })
}

export const dryRunOption = (): Option => new Option('--dry-run', 'only print what would change')

/** A time with its zone. */
export function instant(text: string): Date {
  const time = new Date(text)
  const isFull = /^\d{4}-\d{2}-\d{2}T.*(Z|[+-]\d{2}:\d{2})$/.test(text)
  if (isFull && !Number.isNaN(time.getTime()) && isInCalendar(text.slice(0, 10))) return time
  throw new InvalidArgumentError(
    `Expected an ISO time with its zone, such as 2026-11-20T00:00:00Z, got ${JSON.stringify(text)}.`,
  )
}

export function integer({
  name,
  min = 0,
  max = Number.MAX_SAFE_INTEGER,
}: {
  name: string
  min?: number
  max?: number
}): (text: string) => number {
  const bounds = max === Number.MAX_SAFE_INTEGER ? `≥ ${min}` : `from ${min} to ${max}`
  return (text) => {
    const value = Number(text)
    if (text.trim() !== '' && Number.isInteger(value) && value >= min && value <= max) return value
    throw new InvalidArgumentError(`Expected ${name} to be an integer ${bounds}, got ${JSON.stringify(text)}.`)
  }
}

/** @param min 0 if the system may choose a free port */
export const port = ({ min }: { min: 0 | 1 }): ((text: string) => number) =>
  integer({ name: '--port', min, max: 65_535 })

/** Names are checked before anything is asked of a server or a store, which could only say that it knows none of that name. */
function named(isName: (text: string) => boolean, expected: string): (text: string) => string {
  return (text) => {
    if (isName(text)) return text
    throw new InvalidArgumentError(`Expected ${expected}, got ${JSON.stringify(text.slice(0, 120))}.`)
  }
}

/** A name that is valid in ids and keys. */
export const runName = named(isRunName, '1 to 100 letters, digits, ".", "_" or "-"')

/** For `<runs...>`, and for an option that may be repeated; stages and evaluations have the same kind of names. */
export function runNames(text: string, previous: string[] = []): string[] {
  return [...previous, runName(text)]
}

/** `RUN`, or `RUN:STAGE` for a stage or an evaluation of it. */
export const runPart = named(isRunPart, 'RUN or RUN:STAGE, each of 1 to 100 letters, digits, ".", "_" or "-"')

export const evaluationName = named(
  (text) => text.endsWith('.json') || isRunPart(text),
  'RUN, RUN:EVALUATION or FILE.json; names are 1 to 100 letters, digits, ".", "_" or "-"',
)

export const runOrWorkflow = named(
  isWorkflowId,
  'the name of a run, such as demo-2026-11-20-a, or the id of its workflow, such as train/demo-2026-11-20-a',
)

export const taskId = named(isTaskId, 'the id of a task: 1 to 200 letters, digits, ".", "_" or "-"')

export const hostName = named(isHostName, 'the name of a host as longhaul host list prints it: letters, digits and "-"')

export const buildName = named(isBuildName, 'a LONGHAUL_BUILD_ID: 1 to 100 letters, digits, ".", "_", "+" or "-"')

export const scheduleId = named(isScheduleId, '1 to 80 letters, digits, ".", "_" or "-"')

/** The Temporal UI takes any text as an id, so only what nobody can have meant is refused. */
function isWorkflowId(text: string): boolean {
  const isPath = text.split('/').some((part) => ['', '.', '..'].includes(part))
  return !isPath && text.trim() === text && !/[\p{Cc}\p{Cs}]/u.test(text) && Buffer.byteLength(text) <= MOST_ID_BYTES
}

/** The Temporal server's own limit. */
const MOST_ID_BYTES = 1_000

/** Only the store knows which policies exist. */
function isPolicyName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/.test(text)
}

/** A possible `evaluate.policy` of a recipe. */
export const policyName = named(isPolicyName, 'promoted, base, kept or the version of a policy')

/** A policy that the store has. */
export const storedPolicyName = named(isPolicyName, 'promoted or the version of a policy')

export function share(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value >= 0 && value <= 1) return value
  throw new InvalidArgumentError(`Expected a share between 0 and 1, got ${JSON.stringify(text)}`)
}

/** The options of the rule about a baseline, the same in every command. */
export function withRegressionOptions(command: Command): Command {
  return command
    .option('--max-regression <y>', 'exit 4 when a loss of pass@1 larger than this is proven', share)
    .option('--confidence <c>', 'level of the interval of the difference', confidence, 0.95)
    .option('--strict', 'exit 3 when such a loss cannot be excluded')
}

function confidence(text: string): number {
  const value = Number(text)
  if (value >= 0.5 && value <= 0.9999) return value
  throw new InvalidArgumentError(`Expected a level between 0.5 and 0.9999, got ${JSON.stringify(text)}`)
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

export const interruptOption = (): Option =>
  new Option('--on-interrupt <what>', 'what the first Ctrl-C or SIGTERM does (default: detach; in CI cancel)').choices([
    'detach',
    'cancel',
  ])

/** Options for rules about an evaluation, and for the files that a CI system shows. */
export function withJudgeOptions(command: Command): Command {
  return withRegressionOptions(command)
    .option(
      '--threshold <rule>',
      "exit 3 unless a bound of the 95 % interval holds: 'pass@1.lower>=0.35'",
      parseThreshold,
    )
    .option(
      '--baseline <evaluation>',
      'compare with RUN:EVALUATION, RUN or FILE.json, as longhaul compare does',
      evaluationName,
    )
    .option('--min-graded <share>', 'exit 2 when a smaller share of the episodes was graded', share, 0.95)
    .option('--junit <file>', 'write JUnit XML there: a test case for each task, and one for each rule')
    .option('--summary <file>', 'write a Markdown page there; on GitHub Actions also print up to 8 annotations')
}

export function withRunOptions(command: Command): Command {
  return command
    .option('--run <name>', 'name the run, or continue the run of that name', runName)
    .option('--fresh', 'start a new run even if a run of the same request is open')
    .option('--detach', 'start and return at once')
    .addOption(interruptOption())
    .addOption(jsonOption())
}

export function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}\n`
}
