import { toLonghaulError } from '../../contracts/errors.ts'
import type { StackPaths } from '../paths.ts'
import { stackStatus } from '../status.ts'
import { inspectNamespace } from '../temporal-namespace.ts'
import { type CheckDefinition, fail, type Finding, ok, warn } from './finding.ts'

export const TEMPORAL_CHECKS: readonly CheckDefinition[] = [
  { group: 'temporal', name: 'server', why: 'every run is a workflow on it', run: checkTemporal },
  { group: 'temporal', name: 'workers', why: 'without them a started run only waits', run: checkServices },
]

async function checkTemporal(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  const own = process.env['TEMPORAL_ADDRESS'] ?? ''
  const facts = status.state === 'down' ? null : status.record.facts
  const address = own !== '' ? own : facts?.temporalAddress
  if (address === undefined) return warn('no stack is up, and TEMPORAL_ADDRESS is not set', 'longhaul up')
  const namespace = facts?.namespace ?? process.env['LONGHAUL_NAMESPACE'] ?? 'default'
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
      own === '' ? 'longhaul up' : 'start that server, or unset TEMPORAL_ADDRESS',
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
