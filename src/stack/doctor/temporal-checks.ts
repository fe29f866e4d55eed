import { namedTemporalServer } from '../../platform/temporal-settings.ts'
import { namesRemedy } from '../../platform/temporal-reach.ts'
import { isLonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import type { StackPaths } from '../paths.ts'
import { describeCluster } from '../postgres/private-cluster.ts'
import { describeElsewhere, stackStatus } from '../stack-record.ts'
import { describeStore, readKeptStore } from '../temporal-store.ts'
import { type NamespaceInput, inspectNamespace, prepareNamespace, serverClock } from '../temporal-namespace.ts'
import {
  AS_IT_SAYS,
  type Asked,
  type CheckDefinition,
  fail,
  type Finding,
  fixCommand,
  type Mend,
  ok,
  warn,
} from './finding.ts'

const ANSWER_MS = 5_000
/** gRPC status code. */
const NOT_FOUND = 5
/** Smaller differences can be the latency of a call to a loaded server. */
const NOTED_SKEW_MS = 5_000
/** S3 refuses signatures that are 15 minutes off; cloud tokens tolerate less. */
const MOST_SKEW_MS = 5 * 60_000

export const TEMPORAL_CHECKS: readonly CheckDefinition[] = [
  { group: 'temporal', name: 'server', why: 'every run is a workflow on it', run: checkServer },
  {
    group: 'temporal',
    name: 'workers',
    why: 'without workers a started run waits',
    only: 'stack',
    run: checkServices,
  },
  { group: 'temporal', name: 'store', why: 'open runs are lost with it', only: 'stack', run: checkTemporalStore },
  {
    group: 'temporal',
    name: 'clock',
    why: 'records, leases and TLS need a correct clock',
    run: (paths) => compareClocks(paths),
  },
]

/** The server that the environment names, else that of the running stack; null if there is neither. */
async function serverOf(paths: StackPaths): Promise<(NamespaceInput & { isNamed: boolean }) | null> {
  const status = await stackStatus({ name: paths.name })
  const facts = status.state === 'down' ? null : status.record.facts
  const named = namedTemporalServer()
  const address = named?.address ?? facts?.temporalAddress
  if (address === undefined) return null
  const namespace = named?.namespace ?? facts?.namespace ?? 'default'
  return { address, namespace, timeoutMs: ANSWER_MS, isNamed: named !== null }
}

async function checkServer(paths: StackPaths, asked?: Asked): Promise<Finding> {
  const server = await serverOf(paths)
  if (server === null) {
    return asked?.role === undefined || asked.role === null
      ? warn('no stack is up, and TEMPORAL_ADDRESS is not set', 'longhaul up')
      : fail('TEMPORAL_ADDRESS is not set, and no stack is up here', 'export TEMPORAL_ADDRESS=HOST:7233')
  }
  const { address, namespace, isNamed } = server
  try {
    const { serverVersion, retentionDays, missingAttributes } = await inspectNamespace(server)
    const value = `${address}, server ${serverVersion}, namespace ${namespace}, retention ${retentionDays} days`
    if (missingAttributes.length > 0) {
      const names = missingAttributes.join(', ')
      return fail(`${value}, lacks ${names}`, fixCommand(asked), registering(server, `the search attributes ${names}`))
    }
    return retentionDays < 7
      ? warn(value, `temporal operator namespace update -n ${namespace} --retention 30d`)
      : ok(value)
  } catch (error) {
    const { message } = toLonghaulError(error)
    // The server answers but lacks the namespace, which `--fix` can register.
    if (isNamed && isUnknownNamespace(error)) {
      return fail(
        `${address} has no namespace ${namespace}`,
        fixCommand(asked),
        registering(server, `the namespace ${namespace} with its search attributes`),
      )
    }
    if (namesRemedy(error)) return fail(message, AS_IT_SAYS)
    return fail(message, isNamed ? 'start that server, or unset TEMPORAL_ADDRESS and TEMPORAL_PROFILE' : 'longhaul up')
  }
}

function registering(server: NamespaceInput, things: string): Mend {
  return {
    what: `register ${things} at ${server.address}`,
    async run() {
      await prepareNamespace({ ...server, raiseRetention: false, mayCreate: true })
      return `registered ${things} at ${server.address}`
    },
  }
}

function isUnknownNamespace(error: unknown): boolean {
  return isLonghaulError(error) && (error.cause as { code?: unknown } | undefined)?.code === NOT_FOUND
}

async function checkServices(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  if (status.state === 'down') {
    return status.elsewhere === undefined
      ? warn(`stack "${status.name}" is down`, 'longhaul up')
      : warn(describeElsewhere(status.name, status.elsewhere), `use it on ${status.elsewhere.host}`)
  }
  const bad = status.services.filter(({ state }) => state !== 'ready')
  if (bad.length === 0) return ok(status.services.map(({ name }) => name).join(', '))
  const value = bad.map(({ name, state, lastExit }) => `${name} ${state}${lastExit === null ? '' : ` (${lastExit})`}`)
  return fail(value.join(', '), `longhaul up; logs: ${bad[0]?.log ?? ''}`)
}

/** Reports where the stack's own server stores its runs; fails if PostgreSQL is needed for that and missing. */
async function checkTemporalStore(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  if (status.state !== 'down') return ok(status.record.facts.temporalStore ?? 'kept by the server that the stack uses')
  const kept = (await readKeptStore(paths))?.store ?? null
  if (kept === null) return ok('none yet: longhaul up, or longhaul up --temporal postgres (docs/cluster.md)')
  try {
    if (kept.kind === 'postgres' && kept.url === null) await describeCluster(paths)
    return ok(describeStore(paths, kept))
  } catch (error) {
    return fail(toLonghaulError(error).message, 'apt-get install postgresql')
  }
}

/** @param now this machine's clock, ms since 1970 */
export async function compareClocks(paths: StackPaths, now: () => number = Date.now): Promise<Finding> {
  const here = new Date(now()).toISOString()
  if (new Date(now()).getUTCFullYear() < 2026) return fail(here, 'timedatectl set-ntp true')
  const server = await serverOf(paths)
  if (server === null) return ok(`${here}, not compared: no server`)
  const seen = await serverClock({ ...server, now }).catch(() => null)
  if (seen === null) return ok(`${here}; ${server.address} did not report its clock`)
  const apart = `${Math.round(Math.abs(seen.aheadMs) / 1000)} s ${seen.aheadMs > 0 ? 'behind' : 'ahead of'} ${server.address}`
  if (Math.abs(seen.aheadMs) < NOTED_SKEW_MS) return ok(`${here}, equal to that of ${server.address}`)
  const value = `${here}, ${apart}`
  return Math.abs(seen.aheadMs) < MOST_SKEW_MS
    ? warn(value, 'timedatectl set-ntp true')
    : fail(value, 'timedatectl set-ntp true')
}
