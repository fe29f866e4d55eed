/** Test runners of OCaml, as SWE-rebench-V2 parses their logs. */
import { field } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { pythonInteger, pythonSplit, pythonSplitLines, pythonStrip, pythonStripEnd } from './python-text.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'
import { withoutColourCodes, withoutEscapes } from './terminal-text.ts'

const readEntry = field({ before: String.raw`\s*\[[A-Z]+\]`, after: String.raw`(\d+)\s+(?=\S)` })
const ENTRY_STATUS = pythonPattern(String.raw`^\s*\[([A-Z]+)\]`)
const ENTRY_STATUSES: Record<string, string> = {
  OK: 'PASSED',
  PASS: 'PASSED',
  FAIL: 'FAILED',
  FAILED: 'FAILED',
  SKIP: 'SKIPPED',
  SKIPPED: 'SKIPPED',
  TODO: 'SKIPPED',
}

/** Alcotest: `[OK]  suite  0  name`. Unknown words are errors. */
export const parseOcaml: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStripEnd(raw)
    const entry = readEntry(line)
    if (entry === null) continue
    const { match } = entry
    const parts = [entry.name, match[1] ?? '', line.slice(match.index + match[0].length)].map(pythonStrip)
    const name = parts.filter((part) => part !== '').join(' ')
    const status = ENTRY_STATUSES[ENTRY_STATUS.exec(line)?.[1] ?? ''] ?? 'ERROR'
    if (status === 'PASSED') setDefault(statuses, name, status)
    else statuses.set(name, status)
  }
  return statuses
}

const PRECEDENCE: readonly (string | undefined)[] = ['PASSED', 'SKIPPED', 'FAILED', 'ERROR']

/** The worse of two results wins. */
function setWorse(statuses: StatusMap, name: string, status: string): void {
  if (PRECEDENCE.indexOf(status) >= PRECEDENCE.indexOf(statuses.get(name))) statuses.set(name, status)
}

const RUNNING = pythonPattern(String.raw`^Running\[(\d+)\]:\s+\((.+)\)$`)
const OUTPUT = pythonPattern(String.raw`^Output\[(\d+)\]:`)
const FAIL_WORDS = ['FAIL', 'ERROR', 'EXCEPTION', 'CRASH', 'FATAL'] as const

/** dune: identifies programs by run number and reads a program's result from its output; a program without output has no result. */
export const parseOcamlV2: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const programs = new Map<bigint, string>()
  const heard = new Set<string>()
  let current: string | null = null
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    if (line === '') continue
    const [, started, command = ''] = RUNNING.exec(line) ?? []
    const printing = OUTPUT.exec(line)?.[1]
    if (started !== undefined) {
      const id = pythonInteger(started)
      const program = programOf(command)
      programs.set(id, program === '' ? `run_${id}` : program)
      current = null
    } else if (printing !== undefined) current = programs.get(pythonInteger(printing)) ?? null
    else if (current !== null) {
      heard.add(current)
      const upper = line.toUpperCase()
      if (FAIL_WORDS.some((word) => upper.includes(word))) setWorse(statuses, current, 'FAILED')
      else if (upper.includes('SKIP')) setWorse(statuses, current, 'SKIPPED')
      else if (upper === 'OK') setWorse(statuses, current, 'PASSED')
    }
  }
  for (const name of heard) setDefault(statuses, name, 'PASSED')
  return statuses
}

/** The file name of the program in the last part of a command line. */
function programOf(command: string): string {
  const last = pythonStrip(command.split('&&').at(-1) ?? '')
  const called = last.startsWith('exec ') ? pythonStrip(last.slice(5)) : last
  const [program = ''] = pythonSplit(called.startsWith('./') ? called.slice(2) : called)
  return program.slice(program.lastIndexOf('/') + 1)
}

const WORDED = pythonPattern(String.raw`^\[([A-Za-z][A-Za-z0-9_-]*)\]\s+(.+)$`)
const WORDS: Record<string, readonly string[]> = {
  PASSED: ['OK', 'PASS', 'PASSED', 'SUCCESS'],
  SKIPPED: ['SKIP', 'SKIPPED', 'TODO', 'PENDING', 'DISABLED'],
  FAILED: ['FAIL', 'FAILED', 'ERROR', 'EXCEPTION', 'CRASH', 'FATAL', 'KO', 'PANIC'],
}
const WORD_STATUSES = new Map(
  Object.entries(WORDS).flatMap(([status, words]) => words.map((word): [string, string] => [word, status])),
)

/** `[OK] name`, with the word in any case and from a long list. */
export const parseOcamlV3: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const [, word = '', body = ''] = WORDED.exec(pythonStrip(raw)) ?? []
    const status = WORD_STATUSES.get(word.toUpperCase())
    if (status !== undefined) setWorse(statuses, pythonSplit(body).join(' '), status)
  }
  return statuses
}

const PREFIXED = pythonPattern(String.raw`^(PASSED|FAILED|SKIPPED|ERROR)\s+(.*)$`)
const GAP = pythonPattern(String.raw`\s{2,}`)

/** ocamlbuild: a status word, then the name up to two whitespace characters. */
export const parseOcamlV4: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(withoutEscapes(withoutColourCodes(raw, ' ')))
    const [, status, rest = ''] = PREFIXED.exec(line) ?? []
    if (status !== undefined) setWorse(statuses, rest.slice(0, GAP.exec(rest)?.index), status)
  }
  return statuses
}
