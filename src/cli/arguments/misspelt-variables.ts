import { nearestName } from '../../domain/near-names.ts'
import { ENVIRONMENT } from './environment-example.ts'

/** Read by Longhaul, and set by its own processes, CI jobs and images instead of people. */
export const SET_FOR_PEOPLE: readonly string[] = [
  'LONGHAUL_TEMPORAL_ADDRESS',
  'LONGHAUL_NAMESPACE',
  'LONGHAUL_BUNDLE',
  'LONGHAUL_LAUNCHER_HANDLE',
  'LONGHAUL_TRAINER_STRIKE',
  'LONGHAUL_COMMAND',
  'LONGHAUL_COMMIT',
  'LONGHAUL_DATA',
  'LONGHAUL_EXIT_CODE',
  'LONGHAUL_IMAGES',
  'LONGHAUL_JOB',
  'LONGHAUL_JOB_URL',
  'LONGHAUL_PIPELINE',
  'LONGHAUL_RECIPE',
  'LONGHAUL_RUN',
  'LONGHAUL_TAG',
  'LONGHAUL_VERDICT',
  'TEMPORAL_TLS_DISABLE_HOST_VERIFICATION',
]

const OURS = /^(?:LONGHAUL|TEMPORAL)_/
const KNOWN = [...ENVIRONMENT.flatMap(({ variables }) => variables.map(({ name }) => name)), ...SET_FOR_PEOPLE].filter(
  (name) => OURS.test(name),
)

/**
 * Variables whose names are nearly those of Longhaul: a command would ignore them, and look at another store or server than the one that
 * was meant. Other names with the prefix may be an operator's own, such as those of keys that recipes name.
 */
export function misspeltVariables(env: NodeJS.ProcessEnv): { name: string; near: string }[] {
  return Object.keys(env).flatMap((name) => {
    if (KNOWN.includes(name)) return []
    const near = nearKnown(name)
    return near === null ? [] : [{ name, near }]
  })
}

/** Compares what follows a right prefix, since the prefix alone makes all of these names alike. */
function nearKnown(name: string): string | null {
  const [prefix = ''] = OURS.exec(name) ?? []
  if (prefix === '') return /^(?:LO|TEMP)[A-Z]{3,8}_/.test(name) ? nearestPrefix(name) : null
  const rest = KNOWN.filter((known) => known.startsWith(prefix)).map((known) => known.slice(prefix.length))
  const near = nearestName(name.slice(prefix.length), rest)
  return near === null ? null : `${prefix}${near}`
}

/** A mistyped prefix before a right name. */
function nearestPrefix(name: string): string | null {
  const [typed = ''] = /^[A-Z]+(?=_)/.exec(name) ?? []
  const prefix = nearestName(typed, ['LONGHAUL', 'TEMPORAL'])
  const whole = `${prefix}${name.slice(typed.length)}`
  return KNOWN.includes(whole) ? whole : null
}
