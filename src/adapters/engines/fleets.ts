import { spawn } from 'node:child_process'
import { open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { LonghaulError } from '../../contracts/errors.ts'
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { makeDirectory, rotateLog, tailOf } from '../../platform/files.ts'
import { livenessOf, stopSession } from '../../platform/processes.ts'
import {
  type FleetFiles,
  fleetFiles,
  type FleetPlan,
  type FleetState,
  readPlan,
  readState,
  renewLease,
  writeJson,
} from './fleet-files.ts'

/** Maximum time from a keeper's start to its first report. */
const KEEPER_START_MS = 60_000
/** An ending keeper waits for the grace period of its engines. */
const KEEPER_GRACE_MS = 20_000
const POLL_MS = 100

/** The engines of the runs that this host serves, with one directory per run. */
export interface Fleets {
  plan(run: string): Promise<FleetPlan | null>
  /** Null before the keeper's first report. */
  look(run: string): Promise<FleetState | null>
  /** Replaces the plan and ensures that a keeper runs. Engines that the new plan still names continue. */
  want(plan: FleetPlan): Promise<void>
  /** Renews the lease, and restarts a keeper that died together with its engines. @returns false if no engine is requested any more */
  renew(run: string): Promise<boolean>
  /** Ends the engines of a run and removes their files. Their output is kept if one of them failed. */
  end(run: string): Promise<void>
  /** Ends the engines until the next renewal. @returns whether a keeper was alive */
  stop(run: string): Promise<boolean>
  list(): Promise<FleetPlan[]>
}

/**
 * Returns the folder of the fleets of one Temporal namespace. Workers of two namespaces may share a host and `LONGHAUL_ENGINES`.
 * Neither can ask its server about the other's runs, and it would take them for closed ones.
 */
export function fleetsRoot(enginesDir: string, namespaceId: string): string {
  return join(enginesDir, encodeURIComponent(namespaceId))
}

/** @param root directory on a disk of this host, from `fleetsRoot` */
export function openFleets(root: string): Fleets {
  const filesOf = (run: string): FleetFiles => fleetFiles(join(root, encodeURIComponent(run)))
  /** Excludes other processes that work on the same run. */
  const alone = async <T>(run: string, work: (files: FleetFiles) => Promise<T>): Promise<T> => {
    await makeDirectory(root)
    const files = filesOf(run)
    return withDirectoryLock({ path: `${files.directory}.lock`, timeoutMs: 2 * KEEPER_START_MS }, () => work(files))
  }
  return {
    plan: (run) => readPlan(filesOf(run)),
    look: (run) => readState(filesOf(run)),
    want: (plan) =>
      alone(plan.run, async (files) => {
        await makeDirectory(files.directory)
        await renewLease(files)
        await writeJson(files.plan, plan)
        await seeToKeeper(files)
      }),
    renew: (run) =>
      alone(run, async (files) => {
        if ((await readPlan(files)) === null) return false
        await renewLease(files)
        await seeToKeeper(files)
        return true
      }),
    end: (run) => alone(run, endFleet),
    stop: (run) =>
      alone(run, async (files) => {
        const state = await readState(files)
        const hasLived = state !== null && livenessOf(state.keeper) === 'alive'
        await stopKeeper(files)
        return hasLived
      }),
    async list() {
      const names = await readdir(root).catch(() => [])
      const plans = await Promise.all(names.map((name) => readPlan(fleetFiles(join(root, name)))))
      return plans.filter((plan) => plan !== null)
    },
  }
}

/**
 * Ends the engines of all runs of all namespaces below a directory, when their stack stops. Plans are kept, so that the first renewal
 * by a later worker starts the engines of runs that continue. @returns how many runs had engines
 */
export async function stopAllFleets(enginesDir: string): Promise<number> {
  const namespaces = await readdir(enginesDir).catch(() => [])
  const stopped = namespaces.map(async (name) => {
    const fleets = openFleets(join(enginesDir, name))
    return Promise.all((await fleets.list()).map(({ run }) => fleets.stop(run)))
  })
  return (await Promise.all(stopped)).flat().filter((hadSome) => hadSome).length
}

/** The engines of a killed keeper die with it. */
async function stopKeeper(files: FleetFiles): Promise<FleetState | null> {
  const state = await readState(files)
  if (state !== null) await stopSession(state.keeper, KEEPER_GRACE_MS)
  return state
}

async function endFleet(files: FleetFiles): Promise<void> {
  // Removed first, so that a keeper that starts now finds no plan.
  await rm(files.plan, { force: true })
  const state = await stopKeeper(files)
  const hasFailed = state?.engines.some(({ phase }) => phase === 'failed') === true
  if (!hasFailed) return rm(files.directory, { recursive: true, force: true })
  await rm(files.lease, { force: true })
}

async function seeToKeeper(files: FleetFiles): Promise<void> {
  const before = (await readState(files))?.keeper
  if (before !== undefined && livenessOf(before) === 'alive') return
  await rotateLog(files.keeperLog)
  const output = await open(files.keeperLog, 'a')
  let exit: string | null = null
  try {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const program = fileURLToPath(new URL(`./keep-engines.${extension}`, import.meta.url))
    // Runs in its own session, so that neither a restart nor the death of the worker ends it.
    const child = spawn(process.execPath, [program, files.directory], {
      cwd: files.directory,
      detached: true,
      stdio: ['ignore', output.fd, output.fd],
    })
    child.once('error', (error) => {
      exit = error.message
    })
    child.once('exit', (code, signal) => {
      exit = signal ?? `status ${code}`
    })
    child.unref()
    for (const deadline = Date.now() + KEEPER_START_MS; Date.now() < deadline; await sleep(POLL_MS)) {
      const keeper = (await readState(files))?.keeper
      if (keeper !== undefined && livenessOf(keeper) === 'alive') return
      if (exit !== null) break
    }
  } finally {
    await output.close()
  }
  throw new LonghaulError({
    code: 'Model.EngineFailed',
    message: `Expected the process that keeps the engines to start, but it exited with ${exit ?? 'no exit code'}. The end of ${files.keeperLog}:\n${await tailOf(files.keeperLog)}`,
  })
}
