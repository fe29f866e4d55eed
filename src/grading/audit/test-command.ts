import type { AuditRunner } from '../../contracts/audit.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { END_MARKER, START_MARKER } from '../log-slice.ts'
import { commandsOf } from '../profiles/swebench-4.1.ts'

/** The parts of a row's test command that matter when the audit's own runner replaces it. */
export interface TestCommand {
  runner: AuditRunner
  interpreter: string
  arguments: string[]
  /** Words that name tests. */
  names: string[]
  roots: string[]
}

type CommandTask = Pick<Task, 'repo' | 'gradingProfile' | 'installConfig' | 'harness'>

/** The command that runs a row's tests; null if the audit has no runner for it or the row has several that differ. */
export function testCommandOf(task: CommandTask): TestCommand | null {
  const found = commandLines(task).flatMap(splitCommands).flatMap(readCommand)
  const [first] = found
  if (first === undefined || found.some(({ runner }) => runner !== first.runner)) return null
  return { ...first, names: found.flatMap(({ names }) => names) }
}

function commandLines({ repo, gradingProfile, installConfig, harness }: CommandTask): string[] {
  if (gradingProfile === 'swebench-4.1') return [commandsOf(repo, harness?.version ?? null)?.testCommand ?? '']
  if (gradingProfile !== 'swebench-5') return installConfig.testCmd.split('\n')
  const lines = (harness?.evalScript ?? '').split('\n')
  const start = lines.findIndex((line) => line.includes(START_MARKER))
  const end = lines.findIndex((line, index) => index > start && line.includes(END_MARKER))
  return start < 0 ? [] : lines.slice(start + 1, end < 0 ? undefined : end)
}

/** Words of each simple command of a line, split as a shell splits plain words; all other syntax stays as it is. */
function splitCommands(line: string): string[][] {
  const commands: string[][] = [[]]
  const word = /\s*(?:(&&|\|\||[;|&])|((?:[<>]&[\d-]|[^\s'"\\;|&]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+))/gy
  for (const [, operator, text] of line.matchAll(word)) {
    if (operator !== undefined) commands.push([])
    else commands.at(-1)?.push(unquote(text ?? ''))
  }
  return commands
}

function unquote(word: string): string {
  return word.replaceAll(
    /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)/g,
    (_, single?: string, double?: string, plain?: string) =>
      single !== undefined ? single : (double?.replaceAll(/\\(["\\$`])/g, '$1') ?? plain ?? ''),
  )
}

const PYTHON = /^(?:\S*\/)?python[\d.]*$/
const PYTEST = /^(?:\S*\/)?(?:pytest|py\.test)$/
/** Programs that start another program in the project's environment. */
const STARTERS: readonly { words: readonly string[]; takes?: RegExp }[] = [
  { words: ['poetry', 'run'] },
  { words: ['uv', 'run'], takes: /^-/ },
  { words: ['pipenv', 'run'] },
  { words: ['pdm', 'run'] },
  { words: ['xvfb-run'], takes: /^-/ },
  { words: ['time'] },
  { words: ['timeout'], takes: /^-|^\d/ },
  { words: ['env'] },
]

function readCommand(words: readonly string[]): TestCommand[] {
  const roots: string[] = []
  let rest = [...words]
  for (let before = -1; before !== rest.length; ) {
    before = rest.length
    while (/^[A-Za-z_]\w*=/.test(rest[0] ?? '')) {
      const [name, value = ''] = splitOnce(rest.shift() ?? '', '=')
      if (name === 'PYTHONPATH') roots.push(...value.split(':').flatMap(insideRepository))
    }
    for (const { words: starter, takes } of STARTERS) {
      if (!starter.every((word, index) => rest[index] === word)) continue
      rest = rest.slice(starter.length)
      while (takes?.test(rest[0] ?? '') === true) rest.shift()
    }
  }
  const command = recognise(rest)
  return command === null ? [] : [{ ...command, roots }]
}

function recognise([program = '', ...words]: readonly string[]): Omit<TestCommand, 'roots'> | null {
  if (PYTEST.test(program)) return pytest(program, words)
  // The image's build wrote its `tox.ini` for pytest.
  if (program === 'tox') return words.includes('--current-env') ? pytest('python', []) : null
  if (program === 'coverage' && words[0] === 'run') return afterModule('python', words.slice(1))
  if (/(?:^|\/)runtests\.py$/.test(program)) return django('python', words)
  return PYTHON.test(program) ? afterModule(program, words) : null
}

/** Options of `python` and `coverage run` whose value is the next word. */
const VALUES_BEFORE_MODULE = new Set(['-W', '-X', '--source', '--omit', '--include', '--rcfile'])

/** Words after `python`: its own options, then a module or a script. */
function afterModule(interpreter: string, words: readonly string[]): Omit<TestCommand, 'roots'> | null {
  for (const [index, word] of words.entries()) {
    if (word === '-m') {
      const rest = words.slice(index + 2)
      switch (words[index + 1]) {
        case 'pytest':
        case 'py.test':
          return pytest(interpreter, rest)
        case 'unittest':
          return unittest(interpreter, rest)
        case 'coverage':
          return rest[0] === 'run' ? afterModule(interpreter, rest.slice(1)) : null
        default:
          return null
      }
    }
    if (/(?:^|\/)runtests\.py$/.test(word)) return django(interpreter, words.slice(index + 1))
    if (!word.startsWith('-')) {
      // The value of the preceding option.
      if (VALUES_BEFORE_MODULE.has(words[index - 1] ?? '')) continue
      return null
    }
  }
  return null
}

/** Options whose value is the next word. */
const PYTEST_VALUES = new Set(
  '-W -p -o -c -k -m -n -r --tb --rootdir --confcutdir --ignore --ignore-glob --deselect --maxfail --durations --cov --timeout --import-mode --override-ini --asyncio-mode --junitxml --color'.split(
    ' ',
  ),
)

function pytest(interpreter: string, words: readonly string[]): Omit<TestCommand, 'roots'> {
  const kept: string[] = []
  const names: string[] = []
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? ''
    if (!word.startsWith('-')) {
      if (!/^[\d]*[<>]/.test(word)) names.push(word)
      continue
    }
    const [name, joined] = word.startsWith('--') ? splitOnce(word, '=') : [word.slice(0, 2), word.slice(2) || undefined]
    const value = joined ?? (PYTEST_VALUES.has(name) ? words[++index] : undefined)
    kept.push(...harmless(name, value))
  }
  return { runner: 'pytest', interpreter, arguments: kept, names }
}

/** Options that neither select nor judge tests and load no code. */
function harmless(name: string, value: string | undefined): string[] {
  switch (name) {
    case '-W':
    case '--pythonwarnings':
      return value === undefined ? [] : ['-W', value]
    case '-p':
      return value?.startsWith('no:') === true ? ['-p', value] : []
    case '--import-mode':
    case '--asyncio-mode':
    case '--tb':
      return value === undefined ? [] : [`${name}=${value}`]
    case '-o':
    case '--override-ini':
      return value?.startsWith('asyncio_mode=') === true ? ['-o', value] : []
    default:
      return []
  }
}

function unittest(interpreter: string, words: readonly string[]): Omit<TestCommand, 'roots'> {
  const names = words[0] === 'discover' ? [] : words.filter((word) => !word.startsWith('-'))
  return { runner: 'unittest', interpreter, arguments: [], names }
}

const DJANGO_VALUES = new Set([
  '--settings',
  '--verbosity',
  '-v',
  '--parallel',
  '--tag',
  '--exclude-tag',
  '--start-at',
  '-k',
])

function django(interpreter: string, words: readonly string[]): Omit<TestCommand, 'roots'> {
  const kept: string[] = []
  const names: string[] = []
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? ''
    if (!word.startsWith('-')) {
      names.push(word)
      continue
    }
    const [name, joined] = splitOnce(word, '=')
    const value = joined ?? (DJANGO_VALUES.has(name) ? words[++index] : undefined)
    if (name === '--settings' && value !== undefined) kept.push(`--settings=${value}`)
  }
  return { runner: 'django', interpreter, arguments: kept, names }
}

function insideRepository(folder: string): string[] {
  const plain = folder.replace(/^\.\//, '').replace(/\/$/, '')
  return plain === '' || plain.startsWith('/') || plain.startsWith('$') || plain.split('/').includes('..')
    ? []
    : [plain]
}

function splitOnce(text: string, by: string): [string, string | undefined] {
  const at = text.indexOf(by)
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + by.length)]
}
