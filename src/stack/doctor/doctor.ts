import { toLonghaulError } from '../../contracts/errors.ts'
import { namedTemporalServer } from '../../platform/temporal-settings.ts'
import { stackPaths, type StackPaths } from '../paths.ts'
import { DOCKER_CHECKS } from './docker-checks.ts'
import { type Check, type CheckDefinition, type Level, fail, GIB, ok, warn, type Finding } from './finding.ts'
import { WORK_CHECKS } from './work-checks.ts'
import { availableParallelism, totalmem } from 'node:os'
import { stackStatus } from '../stack-record.ts'
import { inspectNamespace } from '../temporal-namespace.ts'

/** Every check is bounded, and the whole is promised within 20 s. */
const CHECK_TIMEOUT_MS = 18_000

interface DoctorOptions {
  name?: string | undefined
}

interface DoctorResult {
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

const RUNTIME_CHECKS: readonly CheckDefinition[] = [
  {
    group: 'runtime',
    name: 'Node',
    why: 'workers run TypeScript sources and need Node 24',
    run: async () =>
      Number.parseInt(process.versions.node, 10) >= 24
        ? ok(process.versions.node)
        : fail(process.versions.node, 'npm ci (installs Node 24 beside the packages), then start it as npx longhaul'),
  },
  {
    group: 'runtime',
    name: 'machine',
    why: 'the local stack is measured on 2 cores and 8 GiB',
    run: async () => {
      const value = `${availableParallelism()} cores, ${(totalmem() / GIB).toFixed(0)} GiB, ${process.platform}-${process.arch}`
      if (process.platform !== 'linux') return warn(value, 'run it on Linux, or in a Linux virtual machine')
      return totalmem() < 6 * GIB ? warn(value, 'give it 8 GiB of memory') : ok(value)
    },
  },
  {
    group: 'runtime',
    name: 'clock',
    why: 'records, leases and TLS need a clock that is right',
    run: async () =>
      new Date().getUTCFullYear() >= 2026
        ? ok(new Date().toISOString())
        : fail(new Date().toISOString(), 'set the clock'),
  },
]

const TEMPORAL_CHECKS: readonly CheckDefinition[] = [
  { group: 'temporal', name: 'server', why: 'every run is a workflow on it', run: checkTemporal },
  { group: 'temporal', name: 'workers', why: 'without workers a started run waits', run: checkServices },
]

const CHECKS: readonly CheckDefinition[] = [...RUNTIME_CHECKS, ...TEMPORAL_CHECKS, ...DOCKER_CHECKS, ...WORK_CHECKS]

async function checkTemporal(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  const facts = status.state === 'down' ? null : status.record.facts
  const named = namedTemporalServer()
  const address = named?.address ?? facts?.temporalAddress
  if (address === undefined) return warn('no stack is up, and TEMPORAL_ADDRESS is not set', 'longhaul up')
  const namespace = named?.namespace ?? facts?.namespace ?? 'default'
  try {
    const { serverVersion, retentionDays, missingAttributes } = await inspectNamespace({
      address,
      namespace,
      timeoutMs: 5_000,
    })
    const value = `${address}, server ${serverVersion}, namespace ${namespace}, retention ${retentionDays} days`
    if (missingAttributes.length > 0) return fail(`${value}, lacks ${missingAttributes.join(', ')}`, 'longhaul up')
    return retentionDays < 7
      ? warn(value, `temporal operator namespace update -n ${namespace} --retention 30d`)
      : ok(value)
  } catch (error) {
    return fail(
      toLonghaulError(error).message,
      named === null ? 'longhaul up' : 'start that server, or unset TEMPORAL_ADDRESS and TEMPORAL_PROFILE',
    )
  }
}

async function checkServices(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  if (status.state === 'down') return warn(`stack "${status.name}" is down`, 'longhaul up')
  const bad = status.services.filter(({ state }) => state !== 'ready')
  if (bad.length === 0) return ok(status.services.map(({ name }) => name).join(', '))
  const value = bad.map(({ name, state, lastExit }) => `${name} ${state}${lastExit === null ? '' : ` (${lastExit})`}`)
  return fail(value.join(', '), `longhaul up; logs: ${bad[0]?.log ?? ''}`)
}
