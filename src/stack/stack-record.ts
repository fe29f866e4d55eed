import { readJson } from '../platform/files.ts'
import type { StackFacts } from './environment.ts'
import { isAlive, type ProcessIdentity } from '../platform/processes.ts'
import type { Service } from './services.ts'

/** What the supervisor is told to run; written by `up`, read once by the supervisor. */
export interface StackPlan {
  facts: StackFacts
  /** Of the code that the services run; another one means that they have to be restarted. */
  fingerprint: string
  /** Whether Temporal and the engine are ours to stop. */
  ownsTemporal: boolean
  ownsEngine: boolean
  runDir: string
  logsDir: string
  recordFile: string
  /** In this order; each waits for the one before only where it needs it (Temporal first). */
  services: Service[]
}

export type ServiceState = 'starting' | 'ready' | 'restarting' | 'stopped'

export interface ServiceRecord {
  name: string
  state: ServiceState
  process: ProcessIdentity | null
  restarts: number
  /** How the last process ended, for people. */
  lastExit: string | null
  log: string
}

/** `stack.json`: what runs now. Written by the supervisor after each change, whole or not at all. */
export interface StackRecord {
  version: 1
  startedAt: string
  supervisor: ProcessIdentity
  fingerprint: string
  ownsTemporal: boolean
  ownsEngine: boolean
  facts: StackFacts
  runDir: string
  services: ServiceRecord[]
}

export function readStackRecord(recordFile: string): Promise<StackRecord | null> {
  return readJson<StackRecord>(recordFile)
}

export function livingServices(record: StackRecord): (ServiceRecord & { process: ProcessIdentity })[] {
  return record.services.flatMap((service) =>
    service.process !== null && isAlive(service.process) ? [{ ...service, process: service.process }] : [],
  )
}
