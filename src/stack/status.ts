import { stackPaths } from './paths.ts'
import { isAlive } from '../platform/processes.ts'
import { readStackRecord, type ServiceState, type StackRecord } from './stack-record.ts'

export interface StatusOptions {
  name?: string | undefined
  home?: string | undefined
}

export interface ServiceStatus {
  name: string
  /** `gone`: recorded as running, but the process is not there. */
  state: ServiceState | 'gone'
  pid: number | null
  restarts: number
  lastExit: string | null
  log: string
}

export type StackStatus =
  | { state: 'down'; name: string }
  | { state: 'up' | 'degraded'; name: string; record: StackRecord; services: ServiceStatus[] }

/** What runs, checked against the processes themselves. `degraded`: something is missing, starting or unsupervised. */
export async function stackStatus(options: StatusOptions = {}): Promise<StackStatus> {
  const paths = stackPaths(options)
  const record = await readStackRecord(paths.recordFile)
  if (record === null) return { state: 'down', name: paths.name }
  const services = record.services.map((service): ServiceStatus => {
    const pid = service.process !== null && isAlive(service.process) ? service.process.pid : null
    const { name, restarts, lastExit, log } = service
    const state = service.process !== null && pid === null ? 'gone' : service.state
    return { name, state, pid, restarts, lastExit, log }
  })
  const isSupervised = isAlive(record.supervisor)
  if (!isSupervised && services.every(({ pid }) => pid === null)) return { state: 'down', name: paths.name }
  const isWhole = isSupervised && services.every(({ state }) => state === 'ready')
  return { state: isWhole ? 'up' : 'degraded', name: paths.name, record, services }
}
