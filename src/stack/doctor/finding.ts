/** Types of the doctor's checks, findings and automatic fixes. */
import type { StackPaths } from '../paths.ts'
import type { WorkerRole } from '../services.ts'

export type Level = 'ok' | 'warn' | 'fail'

/** Value of `--role`: checks what a machine needs that runs this worker without a local stack. */
export type DoctorRole = WorkerRole | 'all'

export interface Check {
  group: 'runtime' | 'temporal' | 'docker' | 'kubernetes' | 'work'
  name: string
  level: Level
  value: string
  /** Why the check matters. */
  why: string
  /** A command or instruction that fixes the finding; empty at level `ok`. */
  fix: string
}

/** A fix that `--fix` applies without confirmation: safe to repeat, and limited to this stack, this machine's cache and the configured
 *  server. */
export interface Mend {
  /** In the imperative, such as `register the search attributes Model and Stage`. */
  what: string
  /** @returns what was done, as text for the operator; null if there was nothing to do */
  run(context: MendContext): Promise<string | null>
}

export interface MendContext {
  paths: StackPaths
  log: (line: string) => void
  signal: AbortSignal
}

export type Finding = Pick<Check, 'level' | 'value' | 'fix'> & { mend?: Mend }

/** Input of a check besides the stack's paths. */
export interface Asked {
  /** Null: the whole local stack of this machine. */
  role: DoctorRole | null
  /** Functions that only the caller can provide. */
  tools: DoctorTools
}

export interface DoctorTools {
  /** Throws if the environment lacks a variable that a worker requires. */
  readEnvironment?: () => void
  /** One sweep of this host's orphaned containers, by the rules of the workers' reaper. */
  reap?: (input: { isDryRun: boolean }) => Promise<{ removed: number; failed: number }>
}

export interface CheckDefinition extends Pick<Check, 'group' | 'name' | 'why'> {
  /** Roles that need the check. @default all */
  roles?: readonly WorkerRole[]
  /** `stack`: skipped with `--role`; `role`: skipped without it. @default always run */
  only?: 'stack' | 'role'
  /** With `--role`: whether a worker with this environment needs it. @default it does */
  isNeeded?: () => boolean
  run: (paths: StackPaths, asked?: Asked) => Promise<Finding>
}

export const ok = (value: string): Finding => ({ level: 'ok', value, fix: '' })
export const warn = (value: string, fix: string, mend?: Mend): Finding => finding('warn', value, fix, mend)
export const fail = (value: string, fix: string, mend?: Mend): Finding => finding('fail', value, fix, mend)

function finding(level: Level, value: string, fix: string, mend: Mend | undefined): Finding {
  return { level, value, fix, ...(mend === undefined ? {} : { mend }) }
}

/** The fix of a finding whose value already says what to change. */
export const AS_IT_SAYS = 'what the finding says'

/** The command by which an operator applies the automatic fix. */
export function fixCommand(asked: Asked | undefined): string {
  const role = asked?.role ?? null
  return `longhaul doctor${role === null ? '' : ` --role ${role}`} --fix`
}

export const GIB = 1024 ** 3
