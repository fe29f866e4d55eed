import { toLonghaulError } from '../../contracts/errors.ts'
import { stackPaths } from '../paths.ts'
import { DOCKER_CHECKS } from './docker-checks.ts'
import type { Check, CheckDefinition, Level } from './finding.ts'
import { RUNTIME_CHECKS } from './runtime-checks.ts'
import { TEMPORAL_CHECKS } from './temporal-checks.ts'
import { WORK_CHECKS } from './work-checks.ts'

const CHECKS: readonly CheckDefinition[] = [...RUNTIME_CHECKS, ...TEMPORAL_CHECKS, ...DOCKER_CHECKS, ...WORK_CHECKS]

/** Every check is bounded, and the whole is promised within 20 s. */
const CHECK_TIMEOUT_MS = 18_000

export interface DoctorOptions {
  name?: string | undefined
}

export interface DoctorResult {
  /** The worst level of all checks; `fail` is exit code 2. */
  level: Level
  checks: Check[]
}

/** Looks, changes nothing: what would keep a run from working here, and the command that fixes it. */
export async function doctor({ name }: DoctorOptions = {}): Promise<DoctorResult> {
  const paths = stackPaths({ name })
  const checks = await Promise.all(
    CHECKS.map(async ({ group, name: title, why, run }): Promise<Check> => {
      const late = new Promise<never>((_, reject) => {
        setTimeout(() => reject(new Error('no answer in time')), CHECK_TIMEOUT_MS).unref()
      })
      try {
        return { group, name: title, why, ...(await Promise.race([run(paths), late])) }
      } catch (error) {
        return { group, name: title, why, level: 'fail', value: toLonghaulError(error).message, fix: 'longhaul up' }
      }
    }),
  )
  const level = checks.some((check) => check.level === 'fail')
    ? 'fail'
    : checks.some((check) => check.level === 'warn')
      ? 'warn'
      : 'ok'
  return { level, checks }
}

/** One line for each check, two where something is to do. */
export function doctorLines({ checks }: DoctorResult): string[] {
  return checks.flatMap(({ level, group, name, value, why, fix }) => {
    const line = `${level.padEnd(4)}  ${`${group}/${name}`.padEnd(22)}  ${value}`
    return level === 'ok' ? [line] : [line, `      ${why}; fix: ${fix}`]
  })
}
