/** The official harnesses as processes that answer what they find in a log. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { LOG_PROFILES, type LogProfileName } from '../../../src/grading/log-profiles.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv, findPython } from '../../../src/stack/setup/python-env.ts'
import { runCommand } from '../../../src/platform/run-command.ts'
import { requireHarness } from './harness-hash.ts'
import type { LogCase } from './log-cases.ts'

/** `fork-rules`: the fork's rules applied to swebench 4.1, which has the fork's Python parsers. */
export type OracleKind = LogProfileName | 'fork-rules'

/** A harness's answer; `tests` as in its report. */
export interface OracleAnswer {
  id: number
  statusMap?: [string, string][]
  resolved?: boolean | null
  tests?: Record<string, { success: string[]; failure: string[] }> | null
  /** `<exception type>: <message>` */
  error?: string
}

/** By parser of a harness: the literals that it searches for, and lines that match its patterns. */
export type ParserTexts = ReadonlyMap<string, { words: readonly string[]; lines: readonly string[] }>

export interface Oracle {
  /** @param profile whose grading is compared with the harness */
  profile: LogProfileName
  texts: ParserTexts
  ask(cases: readonly LogCase[]): Promise<OracleAnswer[]>
  stop(): Promise<void>
}

/** An upstream without a package is read from a checkout that one of these variables names. */
const SOURCE_VARIABLES = {
  'fork-4.0.3': 'LONGHAUL_FORK_SOURCE',
  'rebench-v2': 'LONGHAUL_REBENCH_V2_SOURCE',
} as const

/** Why a harness is missing here, known before it is needed: no variable names its checkout. */
export function missingSource(kind: OracleKind): string | null {
  if (kind !== 'fork-4.0.3' && kind !== 'rebench-v2') return null
  const variable = SOURCE_VARIABLES[kind]
  return (process.env[variable] ?? '') === '' ? `${variable} names no checkout` : null
}

const PACKAGED = { 'swebench-4.1': '4.1.0', 'fork-rules': '4.1.0', 'swebench-5': '5.0.2' } as const

/** Starts the harness of a kind, after installing its package if there is one.
 *  @throws Error if there is no package and no checkout */
export async function startOracle(kind: OracleKind): Promise<Oracle> {
  const { python, folder } = await locateHarness(kind)
  const profile = kind === 'fork-rules' ? 'fork-4.0.3' : kind
  const args = [join(import.meta.dirname, 'oracle.py'), kind, folder]
  // Upstream opens logs in the machine's encoding but expects UTF-8.
  const env = { ...process.env, PYTHONUTF8: '1', PYTHONDONTWRITEBYTECODE: '1' }
  const { stdout } = await runCommand({
    command: python,
    args: [...args, '--texts', JSON.stringify([...LOG_PROFILES[profile].parsers.keys()])],
    env,
    timeoutMs: 60_000,
  })
  const texts: ParserTexts = new Map(
    Object.entries(JSON.parse(stdout) as Record<string, { words: string[]; lines: string[] }>),
  )
  const child = spawn(python, args, { stdio: ['pipe', 'pipe', 'inherit'], env })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    profile,
    texts,
    async ask(cases) {
      const written = (async () => {
        for (const one of cases) {
          if (!child.stdin.write(`${JSON.stringify(question(one))}\n`)) await once(child.stdin, 'drain')
        }
      })()
      const answers: OracleAnswer[] = []
      for (const { id } of cases) {
        const { value, done } = await lines.next()
        if (done === true) throw new Error(`The oracle ${kind} ended at case ${id}`)
        const answer = JSON.parse(value) as OracleAnswer
        if (answer.id !== id) throw new Error(`The oracle ${kind} answered ${answer.id} to ${id}`)
        answers.push(answer)
      }
      await written
      return answers
    },
    async stop() {
      child.stdin.end()
      await exited
    },
  }
}

export interface Harness {
  python: string
  /** Folder of its code. */
  folder: string
  /** Its version and the hash of its code, stored with every result that depends on it. */
  upstream: string
  sha256: string
}

/**
 * Locates a harness; installs its package first.
 * @throws Error if there is neither package nor checkout, or if the code is not of the expected version
 */
export async function locateHarness(kind: OracleKind): Promise<Harness> {
  const found = await findHarness(kind)
  return { ...found, ...(await requireHarness(kind === 'fork-rules' ? 'swebench-4.1' : kind, found.folder)) }
}

async function findHarness(kind: OracleKind): Promise<Pick<Harness, 'python' | 'folder'>> {
  if (kind === 'fork-4.0.3' || kind === 'rebench-v2') {
    const variable = SOURCE_VARIABLES[kind]
    const folder = process.env[variable] ?? ''
    const python = await findPython()
    if (folder === '') throw new Error(`Expected ${variable} to name a checkout of ${kind}`)
    if (python === null) throw new Error('Expected Python 3.11 or newer')
    return { python: python.path, folder }
  }
  const version = PACKAGED[kind]
  const { value: python } = await ensurePythonEnv({
    cacheDir: stackPaths().cacheDir,
    context: { signal: AbortSignal.timeout(600_000), log: (line) => console.error(line) },
    packages: {
      lockFile: join(import.meta.dirname, `swebench-${version}.lock`),
      what: `swebench ${version}, to compare with`,
      takes: 'about 15 s',
      pipOptions: ['--no-deps', '--no-compile'],
    },
  })
  const { stdout } = await runCommand({
    command: python,
    args: ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'],
    timeoutMs: 20_000,
  })
  return { python, folder: stdout.trim() }
}

/** A Python through which a harness can use the engine. */
export async function harnessPython(): Promise<string> {
  const { value } = await ensurePythonEnv({
    cacheDir: stackPaths().cacheDir,
    context: { signal: AbortSignal.timeout(600_000), log: (line) => console.error(line) },
    packages: {
      lockFile: join(import.meta.dirname, 'harness-libraries.lock'),
      what: 'what the official harnesses need to run containers',
      takes: 'about 15 s',
      pipOptions: ['--no-deps', '--no-compile'],
    },
  })
  return value
}

function question({ id, parser, log, tests, evalType }: LogCase): object {
  return {
    id,
    parser,
    logBase64: Buffer.from(log).toString('base64'),
    evalType,
    ...tests,
  }
}
