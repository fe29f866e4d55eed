import { type ChildProcess, spawn } from 'node:child_process'
import { glob } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { type FileResult, WHOLE_FILE } from './file-result.ts'
import { type FileEnd, type FileEvent, judgeFile } from './judge-file.ts'
import { printEvent } from './print-event.ts'

export interface RunTestFilesInput {
  root: string
  /** Relative to `root`, or absolute. */
  files: readonly string[]
  /** Runs only tests with one of these titles. @default all */
  only?: readonly string[]
  concurrency: number
  /** Whether text is printed as it arrives, for one file at a time. @default concurrency is 1 */
  live?: boolean
  /** A file that runs longer hangs: it is killed with all its processes, and fails. */
  fileTimeoutMs: number
  /** Between SIGTERM and SIGKILL. @default 10_000, so that a test can take down a stack that it started */
  graceMs?: number
  signal: AbortSignal
  /** Receives a file's text: as it arrives if `live`, otherwise after the file's end. */
  print: (text: string) => void
}

const REPORTER = join(import.meta.dirname, 'event-lines.ts')

/**
 * The files that match the patterns, sorted and without duplicates.
 * @throws if a pattern matches no file, because a misspelt path must not pass as nothing to test
 */
export async function findTestFiles(root: string, patterns: readonly string[]): Promise<string[]> {
  const found = new Set<string>()
  for (const pattern of patterns) {
    let count = 0
    for await (const file of glob(pattern, { cwd: root, exclude: ['**/node_modules/**'] })) {
      found.add(relative(root, resolve(root, file)))
      count += 1
    }
    if (count === 0) throw new Error(`Expected a test file at ${pattern}, found none`)
  }
  return [...found].toSorted()
}

/** Runs each file in its own process group and judges it. Resolves early, with the finished files, when the signal aborts. */
export async function runTestFiles(input: RunTestFilesInput): Promise<FileResult[]> {
  const { files, concurrency, signal } = input
  const waiting = [...files]
  const results: FileResult[] = []
  const lane = async (): Promise<void> => {
    for (let file = waiting.shift(); file !== undefined && !signal.aborted; file = waiting.shift()) {
      const result = await runFile(file, input)
      if (!signal.aborted) results.push(result)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
  return results
}

async function runFile(file: string, input: RunTestFilesInput): Promise<FileResult> {
  const {
    root,
    only = [],
    concurrency,
    live = concurrency === 1,
    fileTimeoutMs,
    graceMs = 10_000,
    signal,
    print,
  } = input
  const startedMs = performance.now()
  const texts: string[] = []
  const say = (text: string): void => {
    if (live) print(text)
    else texts.push(text)
  }
  say(`▶ ${file}\n`)
  const events: FileEvent[] = []
  const end = await playFile({ root, file, only, fileTimeoutMs, graceMs, signal }, (event) => {
    events.push(event)
    const text = printEvent(event)
    if (text !== '') say(text)
  })
  const judgement = judgeFile({ events, end })
  for (const { test, error } of judgement.failures) if (test === WHOLE_FILE) say(`  ✖ ${file} ${error}\n`)
  const seconds = (performance.now() - startedMs) / 1000
  const cpuSeconds = events.findLast((event) => event.type === 'cpu')?.seconds
  say(`  ${seconds.toFixed(1)} s${cpuSeconds === undefined ? '' : `, ${cpuSeconds.toFixed(1)} s of CPU`}\n`)
  if (texts.length > 0) print(texts.join(''))
  return { file, seconds, ...judgement, ...(cpuSeconds === undefined ? {} : { cpuSeconds }) }
}

interface PlayFileInput {
  root: string
  file: string
  only: readonly string[]
  fileTimeoutMs: number
  graceMs: number
  signal: AbortSignal
}

function playFile(input: PlayFileInput, onEvent: (event: FileEvent) => void): Promise<FileEnd> {
  const { root, file, only, fileTimeoutMs, graceMs, signal } = input
  // Set if this process is itself a test; Node's runner would then run nothing and exit with 0.
  const { NODE_TEST_CONTEXT: _outer, ...env } = process.env
  const chosen = only.map((title) => `--test-name-pattern=${title.replaceAll(/[.*+?^${}()|[\]\\/]/g, '\\$&')}`)
  const child = spawn(process.execPath, ['--test', `--test-reporter=${REPORTER}`, ...chosen, file], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const end: FileEnd = { exitCode: null, signal: null, timedOutAfterS: null, strayLines: [] }
  createInterface({ input: child.stdout }).on('line', (line) => {
    const event = parseEvent(line)
    if (event === null) end.strayLines.push(line)
    else onEvent(event)
  })
  child.stderr.on('data', (chunk: Buffer) => onEvent({ type: 'output', text: chunk.toString() }))
  return new Promise((settle, reject) => {
    let killer: NodeJS.Timeout | undefined
    const stop = (): void => {
      signalGroup(child, 'SIGTERM')
      killer ??= setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs)
    }
    const timer = setTimeout(() => {
      end.timedOutAfterS = fileTimeoutMs / 1000
      stop()
    }, fileTimeoutMs)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    child.once('error', reject)
    child.once('exit', (exitCode, name) => {
      Object.assign(end, { exitCode, signal: name })
      // Processes that the file left running in its group would keep the pipes open, and thereby the run.
      signalGroup(child, 'SIGKILL')
    })
    child.once('close', () => {
      clearTimeout(timer)
      clearTimeout(killer)
      signal.removeEventListener('abort', stop)
      settle(end)
    })
  })
}

function parseEvent(line: string): FileEvent | null {
  try {
    return JSON.parse(line) as FileEvent
  } catch {
    return null
  }
}

function signalGroup({ pid }: ChildProcess, name: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, name)
  } catch {
    // All processes of the group have ended.
  }
}
