import { spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { delimiter, join, resolve as resolvePath } from 'node:path'
import { createInterface } from 'node:readline'
import { LonghaulError } from '../contracts/errors.ts'
import { errnoOf } from './files.ts'

export interface RunCommandInput {
  command: string
  args: string[]
  cwd?: string
  env?: NodeJS.ProcessEnv
  timeoutMs: number
  /** Longest time without output, for programs that show progress. @default only `timeoutMs` ends the program */
  silenceMs?: number
  signal?: AbortSignal | undefined
  /** Called with each line of stdout and stderr as it arrives. */
  onLine?: ((line: string) => void) | undefined
  /** Time between TERM and KILL of the whole process group. @default 5_000; package managers need longer to clean up */
  graceMs?: number
}

export interface CommandResult {
  /** Null if the program was killed or could not be started. */
  exitCode: number | null
  stdout: string
  /** The last 40 lines of stdout and stderr together. */
  tail: string
  timedOut: boolean
  /** Whether silence was the reason for `timedOut`. */
  wasSilent: boolean
}

const TAIL_LINES = 40

/** Runs a program in its own process group, so that a time-out or an interrupt leaves no process behind. */
export function runCommand(input: RunCommandInput): Promise<CommandResult> {
  const { command, args, timeoutMs, silenceMs, signal, onLine, graceMs = 5_000 } = input
  signal?.throwIfAborted()
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: input.cwd,
      env: input.env ?? process.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    const tail: string[] = []
    let stdout = ''
    let timedOut = false
    let wasSilent = false
    const keep = (line: string): void => {
      tail.push(line)
      if (tail.length > TAIL_LINES) tail.shift()
      onLine?.(line)
    }
    createInterface({ input: child.stdout }).on('line', (line) => {
      stdout += `${line}\n`
      keep(line)
    })
    createInterface({ input: child.stderr }).on('line', keep)
    // Progress bars end no line.
    for (const stream of [child.stdout, child.stderr]) stream.on('data', () => silence?.refresh())

    let killer: NodeJS.Timeout | undefined
    const stop = (): void => {
      signalGroupOf(child.pid, 'SIGTERM')
      killer ??= setTimeout(() => signalGroupOf(child.pid, 'SIGKILL'), graceMs)
    }
    const expire = (isSilent: boolean): void => {
      timedOut = true
      wasSilent ||= isSilent
      stop()
    }
    const timer = setTimeout(expire, timeoutMs, false)
    const silence = silenceMs === undefined ? undefined : setTimeout(expire, silenceMs, true)
    signal?.addEventListener('abort', stop, { once: true })
    const settle = (): void => {
      clearTimeout(timer)
      clearTimeout(silence)
      clearTimeout(killer)
      signal?.removeEventListener('abort', stop)
    }
    child.on('error', (error) => {
      settle()
      resolve({ exitCode: null, stdout, tail: error.message, timedOut, wasSilent })
    })
    child.on('close', (exitCode) => {
      settle()
      if (signal?.aborted === true) reject(signal.reason as Error)
      else resolve({ exitCode, stdout, tail: tail.join('\n'), timedOut, wasSilent })
    })
  })
}

/** @throws LonghaulError `Stack.SetupFailed` with the program's last lines when it does not end with 0 */
export async function requireCommand(input: RunCommandInput & { what: string }): Promise<CommandResult> {
  const result = await runCommand(input)
  if (result.exitCode === 0) return result
  const how = result.timedOut ? `${lateness(result, input)} and was stopped` : `ended with ${result.exitCode}`
  throw new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `${input.what}: ${input.command} ${how}\n${indent(result.tail)}`,
  })
}

function lateness({ wasSilent }: CommandResult, { timeoutMs, silenceMs = 0 }: RunCommandInput): string {
  return wasSilent ? `printed nothing for ${silenceMs / 1000} s` : `did not end within ${timeoutMs / 1000} s`
}

/** Of a program's output: of a stack trace it is the error itself. */
export function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? ''
}

function signalGroupOf(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // Already gone.
  }
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '    ')
}

/** Resolves a path from this process's directory, because the program may start in another one. A bare name stays as it is, for PATH. */
export function programPath(command: string): string {
  return command.includes('/') ? resolvePath(command) : command
}

interface NamedProgram {
  /** The variable that names it. */
  variable: string
  command: string
  /** With its article. */
  what: string
}

/** Whether this user can start what a variable names. @throws LonghaulError `Config.Invalid` */
export async function requireProgram({ variable, command, what }: NamedProgram): Promise<void> {
  const reason = command.includes('/') ? await whyNotExecutable(command) : await whyNotOnPath(command)
  if (reason === null) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${variable} to name ${what}, got ${command}: ${reason}`,
  })
}

async function whyNotOnPath(command: string): Promise<string | null> {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    if (folder !== '' && (await whyNotExecutable(join(folder, command))) === null) return null
  }
  return 'no directory of PATH has such a program'
}

async function whyNotExecutable(path: string): Promise<string | null> {
  try {
    if (!(await stat(path)).isFile()) return 'it is not a file'
    await access(path, constants.X_OK)
    return null
  } catch (error) {
    return NOT_EXECUTABLE[errnoOf(error) ?? ''] ?? String(error)
  }
}

const NOT_EXECUTABLE: Partial<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EACCES: 'this user may not execute it',
}

/** One word of a POSIX shell, always in single quotes. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** The same for a command that people read: quoted only where the shell would read it otherwise. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : shellQuote(word)
}
