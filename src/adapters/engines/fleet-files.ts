import { stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { readJson, writeFileAtomically } from '../../platform/files.ts'
import type { HostProcess } from '../../platform/processes.ts'
import type { PolicyVersion } from '../../contracts/policy.types.ts'
import type { StartCommand } from '../policy-server/start-command.ts'

/** What a worker wants of the engines of a run. The keeper of the run's directory reads it; without it all engines end. */
export interface FleetPlan {
  run: string
  /** Workflow id: when that workflow has closed, no engine is needed. */
  owner: string
  /** Engines end when no worker gave a sign of life for this long. */
  leaseMs: number
  startTimeoutMs: number
  /** Empty where the engines are parked. */
  engines: EnginePlan[]
}

export interface EnginePlan {
  /** `engine-0` */
  name: string
  url: string
  /** Grows when a running engine has to be ended and started by `start`. */
  generation: number
  /** What the next start serves: a reload in place changes it without a new generation. */
  policy: PolicyVersion
  /** It sleeps through a training job: one that dies meanwhile is started after it. @default false */
  isAsleep?: boolean
  start: StartCommand
}

export type EnginePhase = 'starting' | 'serving' | 'pausing' | 'failed' | 'ended'

/** What the keeper says of one engine. */
export interface EngineState {
  name: string
  url: string
  generation: number
  phase: EnginePhase
  /** ms since 1970 */
  sinceMs: number
  /** Of this generation, the first one too. */
  starts: number
  /** Leader of the group of all its processes; null while there is none. */
  process: HostProcess | null
  /** Why it does not serve, or ended last. */
  problem: string | null
  /** What it prints. */
  log: string
}

export interface FleetState {
  keeper: HostProcess
  engines: EngineState[]
}

export interface FleetFiles {
  directory: string
  plan: string
  state: string
  lease: string
  lock: string
  keeperLog: string
}

export function fleetFiles(directory: string): FleetFiles {
  return {
    directory,
    plan: join(directory, 'plan.json'),
    state: join(directory, 'state.json'),
    lease: join(directory, 'lease'),
    lock: join(directory, 'keeper.lock'),
    keeperLog: join(directory, 'keeper.log'),
  }
}

export const readPlan = (files: FleetFiles): Promise<FleetPlan | null> => readJson<FleetPlan>(files.plan)
export const readState = (files: FleetFiles): Promise<FleetState | null> => readJson<FleetState>(files.state)

export async function writeJson(path: string, value: FleetPlan | FleetState): Promise<void> {
  await writeFileAtomically(path, `${JSON.stringify(value, null, 2)}\n`)
}

/** A sign of life of a worker that still needs the engines. */
export async function renewLease({ lease }: FleetFiles, nowMs: number = Date.now()): Promise<void> {
  const now = new Date(nowMs)
  await utimes(lease, now, now).catch(() => writeFileAtomically(lease, ''))
}

/** Infinite where no worker ever gave one. */
export async function leaseAgeMs({ lease }: FleetFiles, nowMs: number = Date.now()): Promise<number> {
  const mtimeMs = (await stat(lease).catch(() => null))?.mtimeMs
  return mtimeMs === undefined ? Number.POSITIVE_INFINITY : nowMs - mtimeMs
}
