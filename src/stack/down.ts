import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { withDirectoryLock } from '../platform/directory-lock.ts'
import { connectEngine } from '../adapters/docker/engine/engine.ts'
import { LABELS } from '../adapters/docker/container/labels.ts'
import { stopAllFleets } from '../adapters/engines/fleets.ts'
import { enginesDir, stackHostId } from './environment.ts'
import { engineUserKey, engineFiles, releasePrivateEngine } from './setup/private-engine.ts'
import { makeStackDirectories, stackPaths, type StackPaths } from './paths.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { removeSocketFolder } from './postgres/private-cluster.ts'
import {
  isAlive,
  stopProcess,
  listProcesses,
  type ProcessIdentity,
  type RunningProcess,
} from '../platform/processes.ts'
import {
  describeElsewhere,
  findElsewhere,
  livingServices,
  readStackRecord,
  type StackElsewhere,
  type StackRecord,
} from './stack-record.ts'

/** The grace periods of the workers, Temporal and its database, one after another, plus time for the supervisor itself. */
const SUPERVISOR_GRACE_MS = 90_000

interface DownOptions {
  name?: string | undefined
  home?: string | undefined
}

export interface DownResult {
  /** False if nothing of this stack was running. */
  changed: boolean
  name: string
  stopped: string[]
  /** The silent machine whose stack was forgotten; nothing was stopped there. */
  forgotten: string | null
  trainingJobs: number
  containersRemoved: number
  engine: 'stopped' | 'still-used' | 'not-running' | 'not-ours'
}

/** Stops everything that `up` started and nothing else. Data stays, so a later `up` continues unfinished runs. Safe to repeat, also after a
 *  crash of the supervisor. */
export async function down(options: DownOptions = {}): Promise<DownResult> {
  const paths = stackPaths({ name: options.name, home: options.home })
  await makeStackDirectories(paths)
  return withDirectoryLock({ path: join(paths.dataDir, 'up.lock') }, () => downLocked(paths))
}

/** @throws LonghaulError `Config.Invalid` for a stack that another machine runs */
async function downLocked(paths: StackPaths): Promise<DownResult> {
  const record = await readStackRecord(paths.recordFile)
  const elsewhere = record === null ? null : await findElsewhere(record, paths.recordFile)
  if (elsewhere === null) return stopStack({ paths })
  if (elsewhere.isLiving) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected a stack of this machine, but ${describeElsewhere(paths.name, elsewhere)}: stop it there`,
      details: { directory: paths.dataDir, host: elsewhere.host },
    })
  }
  return forget(paths, elsewhere)
}

/** Without its record, this machine may start the stack. */
async function forget(paths: StackPaths, { host }: StackElsewhere): Promise<DownResult> {
  await rm(paths.recordFile, { force: true })
  return {
    changed: true,
    name: paths.name,
    stopped: [],
    forgotten: host,
    trainingJobs: 0,
    containersRemoved: 0,
    engine: 'not-running',
  }
}

interface StopStackInput {
  paths: StackPaths
  /** For a restart that needs the engine again at once. @default false */
  keepEngine?: boolean
  /** For a restart that continues in the same containers. @default false */
  keepContainers?: boolean
  /** A supervisor that may not have recorded itself yet. @default the recorded one */
  supervisor?: ProcessIdentity
}

/** `down` for callers that already hold its lock. */
export async function stopStack({
  paths,
  keepEngine = false,
  keepContainers = false,
  supervisor,
}: StopStackInput): Promise<DownResult> {
  // Ended before its record is read, because it may write one until then.
  if (supervisor !== undefined) await stopProcess({ identity: supervisor, graceMs: SUPERVISOR_GRACE_MS })
  const record = await readStackRecord(paths.recordFile)
  const stopped = record === null ? [] : await stopProcesses(record)
  // Stopped after the workers, which would restart the jobs.
  const jobs = await stopTrainingJobs({ artifactsDir: record?.facts.artifactsDir ?? paths.artifactsDir })
  // Also stopped after the workers; otherwise the engines would run until their lease expires.
  const engines = await stopAllFleets(enginesDir(paths.dataDir))
  const containersRemoved = record === null || keepContainers ? 0 : await removeContainers(record)
  // Also without a record: an `up` that was killed early leaves a private engine behind.
  const engine =
    record !== null && !record.ownsEngine
      ? 'not-ours'
      : keepEngine
        ? 'still-used'
        : await releasePrivateEngine({ files: engineFiles(paths), key: engineUserKey(paths) })
  await rm(paths.recordFile, { force: true })
  await removeSocketFolder(paths)
  return {
    changed: stopped.length + jobs + engines > 0 || engine === 'stopped',
    name: paths.name,
    stopped,
    forgotten: null,
    trainingJobs: jobs,
    containersRemoved,
    engine,
  }
}

async function stopProcesses(record: StackRecord): Promise<string[]> {
  const names = livingServices(record).map(({ name }) => name)
  if (isAlive(record.supervisor)) await stopProcess({ identity: record.supervisor, graceMs: SUPERVISOR_GRACE_MS })
  // Services that a dead supervisor left running.
  const left = livingServices(record)
  const isDatabase = ({ name }: { name: string }): boolean => name === 'postgres'
  for (const group of [left.filter((one) => !isDatabase(one)), left.filter(isDatabase)]) {
    await Promise.all(
      group.map(({ process: identity, stopSignal: signal }) => stopProcess({ identity, graceMs: 10_000, signal })),
    )
  }
  return names
}

/** A stopped stack needs no sandboxes: the next attempt at an episode replays its turns in a new one. */
async function removeContainers(record: StackRecord): Promise<number> {
  const { dockerHost, name } = record.facts
  if (dockerHost === null) return 0
  const engine = await connectEngine({ host: dockerHost, timeoutMs: 5_000 }).catch(() => null)
  if (engine === null) return 0
  const filters = { label: [`${LABELS.host}=${stackHostId(name)}`] }
  const containers = await engine.docker.listContainers({ all: true, filters })
  const removed = await Promise.allSettled(
    containers.map(({ Id }) => engine.docker.getContainer(Id).remove({ force: true, v: true })),
  )
  // After the containers: the engine removes no network or volume that a container uses.
  const networks = await engine.docker.listNetworks({ filters })
  await Promise.allSettled(networks.map(({ Id }) => engine.docker.getNetwork(Id).remove()))
  // An engine without volumes returns null.
  const volumes = ((await engine.docker.listVolumes({ filters })).Volumes as { Name: string }[] | null) ?? []
  await Promise.allSettled(volumes.map(({ Name }) => engine.docker.getVolume(Name).remove()))
  return removed.filter(({ status }) => status === 'fulfilled').length
}

/** After SIGTERM a training job stops at its next micro-batch and saves its state: a few seconds on the demo's model. */
const GRACE_MS = 20_000

/** A stack's training jobs, recognised by the spec file on their command line, which lies in the stack's artifact directory. */
export function listTrainingJobs({ artifactsDir }: { artifactsDir: string }): RunningProcess[] {
  return listProcesses().filter(
    ({ command }) => / longhaul_trainer step /.test(command) && command.includes(`${artifactsDir}/`),
  )
}

/** Training jobs run in sessions of their own, so that they survive a killed worker. A stopping stack must therefore end them itself.
 *  @returns how many were stopped */
async function stopTrainingJobs({ artifactsDir }: { artifactsDir: string }): Promise<number> {
  const jobs = listTrainingJobs({ artifactsDir })
  await Promise.all(jobs.map((identity) => stopProcess({ identity, graceMs: GRACE_MS })))
  return jobs.length
}
