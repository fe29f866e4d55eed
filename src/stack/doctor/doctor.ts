import { toLonghaulError } from '../../contracts/errors.ts'
import { stackPaths, type StackPaths } from '../paths.ts'
import { DOCKER_CHECKS } from './docker-checks.ts'
import {
  AS_IT_SAYS,
  type Asked,
  type Check,
  type CheckDefinition,
  type DoctorRole,
  type DoctorTools,
  type Finding,
  type Level,
  type Mend,
} from './finding.ts'
import { KUBERNETES_CHECKS } from './kubernetes-checks.ts'
import { RUNTIME_CHECKS } from './runtime-checks.ts'
import { TEMPORAL_CHECKS } from './temporal-checks.ts'
import { WORK_CHECKS } from './work-checks.ts'

/** Limit of each check. Checks run concurrently, so that all of them end within 20 s. */
const CHECK_TIMEOUT_MS = 18_000

interface DoctorOptions {
  name?: string | undefined
  /** Checks only what this worker needs. @default null: the whole local stack */
  role?: DoctorRole | null
  /** @default none; without tools, some findings need an operator */
  tools?: DoctorTools
}

export interface DoctorResult {
  /** The worst level of all checks; `fail` gives exit code 2. */
  level: Level
  checks: Check[]
}

const CHECKS: readonly CheckDefinition[] = [
  ...RUNTIME_CHECKS,
  ...TEMPORAL_CHECKS,
  ...DOCKER_CHECKS,
  ...KUBERNETES_CHECKS,
  ...WORK_CHECKS,
]

/** Reports what would break a run here and the command that fixes it; repairs nothing. */
export async function doctor(options: DoctorOptions = {}): Promise<DoctorResult> {
  return resultOf(await look(options))
}

interface MendOptions extends DoctorOptions {
  /** Reports the fixes without applying them. */
  dryRun: boolean
  log: (line: string) => void
  signal: AbortSignal
}

interface Mended {
  /** `docker/sandbox image` */
  check: string
  /** What was done, or would be done without `dryRun`. */
  did: string
}

export interface MendResult extends DoctorResult {
  dryRun: boolean
  /** In the order of execution. */
  mended: Mended[]
  /** Fixes that were tried and failed. */
  failed: { check: string; what: string; error: string }[]
}

/**
 * Applies the fixes that are safe to repeat and need no confirmation; if any changed something, repeats the checks. The remaining findings
 * need an operator. If `mended` and `failed` are empty, there was nothing to fix.
 */
export async function mend({ dryRun, log, signal, ...options }: MendOptions): Promise<MendResult> {
  const before = await look(options)
  const mended: Mended[] = []
  const failed: MendResult['failed'] = []
  // Sequential, since some fixes change what others need.
  for (const { title, finding } of before) {
    if (finding.mend === undefined) continue
    signal.throwIfAborted()
    const { what, run } = finding.mend
    if (dryRun) {
      mended.push({ check: title, did: what })
      continue
    }
    log(`${title}: ${what}`)
    try {
      const did = await run({ paths: stackPaths({ name: options.name }), log, signal })
      if (did !== null) mended.push({ check: title, did })
    } catch (error) {
      signal.throwIfAborted()
      failed.push({ check: title, what, error: toLonghaulError(error).message })
    }
  }
  const isAnew = !dryRun && mended.length > 0
  return { ...resultOf(isAnew ? await look(options) : before), dryRun, mended, failed }
}

interface Looked {
  definition: CheckDefinition
  title: string
  finding: Finding & { mend?: Mend }
}

async function look({ name, role = null, tools = {} }: DoctorOptions): Promise<Looked[]> {
  const paths = stackPaths({ name })
  const asked: Asked = { role, tools }
  return Promise.all(
    CHECKS.filter((check) => isAsked(check, role)).map(async (definition) => ({
      definition,
      title: `${definition.group}/${definition.name}`,
      finding: await runBounded(definition, paths, asked),
    })),
  )
}

function isAsked({ roles, only, isNeeded = () => true }: CheckDefinition, role: DoctorRole | null): boolean {
  if (role === null) return only !== 'role'
  return only !== 'stack' && isNeeded() && (role === 'all' || roles === undefined || roles.includes(role))
}

async function runBounded({ run }: CheckDefinition, paths: StackPaths, asked: Asked): Promise<Finding> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error('no answer in time')), CHECK_TIMEOUT_MS)
  try {
    return await Promise.race([run(paths, asked), late.promise])
  } catch (error) {
    // A refused setting names itself; starting the stack again would meet it again.
    const { code, message } = toLonghaulError(error)
    return { level: 'fail', value: message, fix: code.startsWith('Config.') ? AS_IT_SAYS : 'longhaul up' }
  } finally {
    clearTimeout(timer)
  }
}

function resultOf(looked: readonly Looked[]): DoctorResult {
  const checks = looked.map(({ definition: { group, name, why }, finding: { level, value, fix } }) => ({
    group,
    name,
    level,
    value,
    why,
    fix,
  }))
  const has = (level: Level): boolean => checks.some((check) => check.level === level)
  return { level: has('fail') ? 'fail' : has('warn') ? 'warn' : 'ok', checks }
}

/** One line per check, two if the check is not `ok`. */
export function doctorLines({ checks }: DoctorResult): string[] {
  return checks.flatMap(({ level, group, name, value, why, fix }) => {
    const line = `${level.padEnd(4)}  ${`${group}/${name}`.padEnd(22)}  ${value}`
    return level === 'ok' ? [line] : [line, `      ${why}; fix: ${fix}`]
  })
}

/** Applied fixes, failed fixes and the number of findings left to the operator. */
export function mendLines({ dryRun, mended, failed, checks }: MendResult): string[] {
  const left = checks.filter(({ level }) => level !== 'ok').length
  const nothing = mended.length === 0 && failed.length === 0
  return [
    ...mended.map(({ check, did }) => `${dryRun ? 'would fix' : 'fixed'}  ${check}: ${did}`),
    ...failed.map(({ check, what, error }) => `not fixed  ${check}: ${what}: ${error}`),
    ...(nothing ? ['there was nothing to fix automatically'] : []),
    dryRun || left === 0 ? `${left} findings` : `${left} findings need an operator`,
  ]
}
