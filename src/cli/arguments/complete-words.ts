import type { Argument, Command, Option } from 'commander'
import { collect } from './options.ts'

/** Names that must be queried when the user completes them. */
export type LiveKind = 'runs' | 'open runs' | 'recipes' | 'schedules' | 'hosts'

export interface Candidate {
  value: string
  description: string
}

export interface Completion {
  candidates: Candidate[]
  /** Names to add, from the server or this machine; null if `candidates` is complete. */
  live: LiveKind | null
  /** Prefix of every value, such as `--recipe=`. */
  before: string
}

/**
 * Completions at the cursor, from the definitions of the commands.
 * @param words after the program's name, up to the cursor; the last one is being typed and may be empty
 */
export function completeWords(program: Command, words: readonly string[]): Completion {
  // Some shells pass `=` as a word of its own.
  const typed = words.at(-1) === '=' ? '' : (words.at(-1) ?? '')
  const place = placeOf(
    program,
    words.slice(0, -1).filter((word) => word !== '='),
  )
  const answer = (candidates: Candidate[], live: LiveKind | null, prefix = typed, before = ''): Completion => ({
    candidates: candidates.filter(({ value }) => value.startsWith(prefix)),
    live,
    before,
  })
  const endsValues = place.option?.variadic === true && typed.startsWith('-')
  if (place.option !== null && !endsValues) return answer(...valuesOf(place.option, place.command))
  if (typed.startsWith('-') && !place.isLiteral) {
    const at = typed.indexOf('=')
    const option = at < 0 ? undefined : place.command.options.find(({ long }) => long === typed.slice(0, at))
    if (at < 0) return answer(optionsOf(place), null)
    if (option === undefined || !takesValue(option)) return answer([], null)
    const [candidates, live] = valuesOf(option, place.command)
    return answer(candidates, live, typed.slice(at + 1), typed.slice(0, at + 1))
  }
  const commands = place.positionals === 0 ? subcommandsOf(place.command) : []
  const argument = place.command.registeredArguments[place.positionals] ?? lastVariadic(place.command)
  const [values, live] = argument === undefined ? ([[], null] as const) : valuesOf(argument, place.command)
  return answer([...commands, ...values], live)
}

interface Place {
  command: Command
  /** Number of arguments before the cursor. */
  positionals: number
  /** The option whose value is being typed. */
  option: Option | null
  given: Set<Option>
  /** After `--`, where nothing is an option. */
  isLiteral: boolean
}

function placeOf(program: Command, before: readonly string[]): Place {
  const place: Place = { command: program, positionals: 0, option: null, given: new Set(), isLiteral: false }
  for (const word of before) {
    if (place.option !== null && !(place.option.variadic && word.startsWith('-'))) {
      if (!place.option.variadic) place.option = null
      continue
    }
    place.option = null
    if (place.isLiteral || !word.startsWith('-') || word === '-') {
      const child = place.positionals === 0 && !place.isLiteral ? childOf(place.command, word) : undefined
      if (child === undefined) place.positionals += 1
      else Object.assign(place, { command: child, given: new Set<Option>() })
      continue
    }
    if (word === '--') {
      place.isLiteral = true
      continue
    }
    const option = place.command.options.find(({ long, short }) => word === long || word === short)
    if (option === undefined) continue
    place.given.add(option)
    if (takesValue(option)) place.option = option
  }
  return place
}

function childOf({ commands }: Command, word: string): Command | undefined {
  return commands.find((command) => command.name() === word || command.aliases().includes(word))
}

function takesValue({ required, optional }: Option): boolean {
  return required || optional
}

/** Without hidden commands, which are for programs. */
function subcommandsOf(command: Command): Candidate[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((child) => ({ value: child.name(), description: firstSentence(child.description()) }))
}

/** Options that are not given yet, or may be repeated. */
function optionsOf({ command, given }: Place): Candidate[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .filter((option) => !given.has(option) || option.parseArg === collect || option.variadic)
    .map(({ long, short, description }) => ({ value: long ?? short ?? '', description: firstSentence(description) }))
}

function lastVariadic({ registeredArguments }: Command): Argument | undefined {
  const last = registeredArguments.at(-1)
  return last?.variadic === true ? last : undefined
}

/** Fixed words that an option accepts besides names. */
const WORDS: Record<string, readonly string[]> = { policy: ['base', 'promoted', 'kept'] }

const LIVE: Record<string, LiveKind> = {
  run: 'runs',
  runs: 'runs',
  'run|directory': 'runs',
  evaluation: 'runs',
  before: 'runs',
  after: 'runs',
  recipe: 'recipes',
  'name|file': 'recipes',
  suite: 'recipes',
  id: 'schedules',
  host: 'hosts',
}

/** Commands that need an open run. */
const OF_OPEN_RUNS = new Set(['wait', 'pause', 'resume', 'set-limits', 'requeue', 'cancel', 'stop'])

/** Values by the placeholder of the definition, such as `<run>` or `<name|file>`. The shell completes files. */
function valuesOf(definition: Option | Argument, command: Command): [Candidate[], LiveKind | null] {
  const { argChoices } = definition
  if (argChoices !== undefined) return [argChoices.map((value) => ({ value, description: '' })), null]
  const name = nameOf(definition)
  const words = (WORDS[name] ?? []).map((value) => ({ value, description: '' }))
  return [words, liveOf(definition, name, command)]
}

function liveOf(definition: Option | Argument, name: string, command: Command): LiveKind | null {
  if ('long' in definition && definition.long === '--run') return 'open runs'
  const kind = LIVE[name] ?? null
  if (kind === 'schedules' && command.parent?.name() !== 'schedule') return null
  if (kind === 'schedules' && command.name() === 'create') return null
  return kind === 'runs' && OF_OPEN_RUNS.has(command.name()) ? 'open runs' : kind
}

function nameOf(definition: Option | Argument): string {
  if (!('flags' in definition)) return definition.name()
  return /[<[]([^>\]]+?)(?:\.\.\.)?[>\]]/.exec(definition.flags)?.[1] ?? ''
}

function firstSentence(text: string): string {
  return text.split(/[;:(]/)[0]?.trim().slice(0, 80) ?? ''
}
