import { stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { readJson, writeFileAtomically } from '../../platform/files.ts'
import type { HostProcess } from '../../platform/processes.ts'
import type { PolicyVersion } from '../../contracts/policy.types.ts'
import type { StartCommand } from '../policy-server/start-command.ts'

/** The engines of a run that a worker requests. The keeper of the run's directory reads the plan and ends all engines if there is
 *  none. */
export interface FleetPlan {
  run: string
  /** Workflow id. After that workflow has closed, no engine is needed. */
  owner: string
  /** Engines end if no worker renews the lease for this long. */
  leaseMs: number
  startTimeoutMs: number
  /** Empty if the engines are parked. */
  engines: EnginePlan[]
}

export interface EnginePlan {
  /** `engine-0` */
  name: string
  url: string
  /** Increases when a running engine must be stopped and started with `start`. */
  generation: number
  /** The policy of the next start. A reload in place changes it without a new generation. */
  policy: PolicyVersion
  /** It sleeps through a training job. An engine that dies meanwhile is restarted after the job. @default false */
  isAsleep?: boolean
  start: StartCommand
}

export type EnginePhase = 'starting' | 'serving' | 'pausing' | 'failed' | 'ended'

/** The state of one engine as reported by the keeper. */
export interface EngineState {
  name: string
  url: string
  generation: number
  phase: EnginePhase
  /** ms since 1970 */
  sinceMs: number
  /** Number of starts in this generation, including the first. */
  starts: number
  /** Leader of the group of all its processes; null if there is none. */
  process: HostProcess | null
  /** Why it does not serve, or why it last ended. */
  problem: string | null
  /** File with its output. */
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

/** Renews the lease, as a worker that still needs the engines does. */
export async function renewLease({ lease }: FleetFiles, nowMs: number = Date.now()): Promise<void> {
  const now = new Date(nowMs)
  await utimes(lease, now, now).catch(() => writeFileAtomically(lease, ''))
}

/** Returns infinity if no worker has ever renewed it. */
export async function leaseAgeMs({ lease }: FleetFiles, nowMs: number = Date.now()): Promise<number> {
  const mtimeMs = (await stat(lease).catch(() => null))?.mtimeMs
  return mtimeMs === undefined ? Number.POSITIVE_INFINITY : nowMs - mtimeMs
}
