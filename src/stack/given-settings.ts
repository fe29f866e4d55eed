import { createHash } from 'node:crypto'
import type { WorkerRole } from './services.ts'
import { withAbsolutePaths } from './environment.ts'

/** Name of a setting (a variable, or `--roles`) and a mark of its value. */
export type GivenSettings = Record<string, string>

/** What the processes of a stack inherit and read: the project's own variables, and those of the libraries beneath. */
const READ = /^(LONGHAUL|TEMPORAL|DOCKER|KUBE|AWS|OTEL)[A-Z_]*$|^(HTTPS?|NO)_PROXY$/i
/** They choose the stack itself. */
const NAMES_OF_THE_STACK = new Set(['LONGHAUL_STACK', 'LONGHAUL_HOME'])
/** 24 bits see a change, and tell too little to find a password by trying. */
const MARK_DIGITS = 6

/** The settings that a stack is started with, for a later `up` to compare. Values stay out, because some of them are secrets. */
export function givenSettings(
  { roles }: { roles: readonly WorkerRole[] },
  env: NodeJS.ProcessEnv = process.env,
): GivenSettings {
  const given: GivenSettings = { '--roles': mark(roles.toSorted().join()) }
  for (const [name, value = ''] of Object.entries(withAbsolutePaths(env))) {
    if (READ.test(name) && !NAMES_OF_THE_STACK.has(name) && value !== '') given[name] = mark(value)
  }
  return given
}

/** Names of the settings that differ, sorted; one that is absent differs from any value. */
export function differingSettings(before: GivenSettings, now: GivenSettings): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)])
  return [...names].filter((name) => before[name] !== now[name]).toSorted()
}

function mark(value: string): string {
  return createHash('sha256').update(value).digest('hex').slice(0, MARK_DIGITS)
}
