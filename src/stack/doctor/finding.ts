/** What a look at this machine finds, how it is told, and how it is mended. */
import type { StackPaths } from '../paths.ts'
import type { WorkerRole } from '../services.ts'

export type Level = 'ok' | 'warn' | 'fail'

/** Of `--role`: what a machine needs that runs this worker and no stack of its own. */
export type DoctorRole = WorkerRole | 'all'

export interface Check {
  group: 'runtime' | 'temporal' | 'docker' | 'work'
  name: string
  level: Level
  value: string
  /** Why it matters. */
  why: string
  /** The command that fixes it; empty when nothing is wrong. */
  fix: string
}

/** What `--fix` does without a question: safe to repeat, and only with what belongs to this stack, this machine's cache or the named server. */
export interface Mend {
  /** In the imperative: `register the search attributes Model and Stage`. */
  what: string
  /** @returns what it did, for people; null where there was nothing to do */
  run(context: MendContext): Promise<string | null>
}

export interface MendContext {
  paths: StackPaths
  log: (line: string) => void
  signal: AbortSignal
}

export type Finding = Pick<Check, 'level' | 'value' | 'fix'> & { mend?: Mend }

/** What a check is asked for beside the places of the stack. */
export interface Asked {
  /** Null: the whole local stack of this machine. */
  role: DoctorRole | null
  /** What only the caller has. */
  tools: DoctorTools
}

export interface DoctorTools {
  /** Throws where the environment lacks what a worker is told by it. */
  readEnvironment?: () => void
  /** One sweep of this host's orphaned containers, by the rules of the workers' own reaper. */
  reap?: (input: { isDryRun: boolean }) => Promise<{ removed: number; failed: number }>
}

export interface CheckDefinition extends Pick<Check, 'group' | 'name' | 'why'> {
  /** Workers that need it. @default all */
  roles?: readonly WorkerRole[]
  /** `stack`: left out with `--role`; `role`: only then. @default both */
  only?: 'stack' | 'role'
  run: (paths: StackPaths, asked?: Asked) => Promise<Finding>
}

export const ok = (value: string): Finding => ({ level: 'ok', value, fix: '' })
export const warn = (value: string, fix: string, mend?: Mend): Finding => finding('warn', value, fix, mend)
export const fail = (value: string, fix: string, mend?: Mend): Finding => finding('fail', value, fix, mend)

function finding(level: Level, value: string, fix: string, mend: Mend | undefined): Finding {
  return { level, value, fix, ...(mend === undefined ? {} : { mend }) }
}

/** What a person runs so that `--fix` mends it. */
export function fixCommand(asked: Asked | undefined): string {
  const role = asked?.role ?? null
  return `longhaul doctor${role === null ? '' : ` --role ${role}`} --fix`
}

export const GIB = 1024 ** 3
