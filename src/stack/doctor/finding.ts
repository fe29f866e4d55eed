/** What a look at this machine finds, and how it is told. */
import type { StackPaths } from '../paths.ts'

export type Level = 'ok' | 'warn' | 'fail'

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

export type Finding = Pick<Check, 'level' | 'value' | 'fix'>

export interface CheckDefinition extends Pick<Check, 'group' | 'name' | 'why'> {
  run: (paths: StackPaths) => Promise<Finding>
}

export const ok = (value: string): Finding => ({ level: 'ok', value, fix: '' })
export const warn = (value: string, fix: string): Finding => ({ level: 'warn', value, fix })
export const fail = (value: string, fix: string): Finding => ({ level: 'fail', value, fix })

export const GIB = 1024 ** 3
