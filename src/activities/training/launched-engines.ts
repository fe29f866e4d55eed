import { setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { Context } from '@temporalio/activity'
import { engineCommand, sleepsThroughTraining } from '../../adapters/engines/engine-command.ts'
import type { EnginePlan, EngineState, FleetPlan } from '../../adapters/engines/fleet-files.ts'
import type { Fleets } from '../../adapters/engines/fleets.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { EnginesRecord, PolicyRef } from '../../contracts/policy.types.ts'
import type { EngineLaunchRecipe, Recipe } from '../../contracts/recipe.types.ts'
import { livenessOf } from '../../platform/processes.ts'
import { choosePort } from '../../platform/ports.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { ActivityScope } from '../runtime/activity-runtime.ts'
import { howPublished } from '../runtime/policy-clients.ts'
import { waitingFor } from '../runtime/wait-board.ts'

export interface EngineDependencies {
  store: ArtifactStore
  fleets: Fleets
  /** Directory of the fleets, where embedded servers record what they serve. */
  root: string
  /** This host, as the record of a run's engines names it. */
  host: string
  python: string
  trainerEnv: Record<string, string>
  /** Whether this worker has a key for policy servers. */
  hasKey: boolean
  /** Puts a vLLM server to sleep, which frees its memory until its next load. @throws LonghaulError if the server refuses */
  putToSleep(server: { url: string; signal: AbortSignal }): Promise<void>
  /** How long engines outlive a worker's last renewal. */
  leaseMs: number
}

/** Returns null if operators run the servers. Recipes stored by an older version have no `launch`. */
export function launchOf({ policyServer }: Pick<Recipe, 'policyServer'>): EngineLaunchRecipe | null {
  return policyServer.launch ?? null
}

const POLL_MS = 500
const SAY_EVERY_MS = 30_000

interface ServeInput {
  run: string
  recipe: Recipe
  launch: EngineLaunchRecipe
  /** Its paths are those of this host. */
  policy: PolicyRef
}

/**
 * Makes the engines of a run serve a policy without an operator: starts those that do not run, lets `publish` load and verify the
 * policy on those that do, and restarts those that cannot load it in place or load it incorrectly. Idempotent: engines that another
 * worker started are found and kept.
 */
export async function publishOnEngines(
  deps: EngineDependencies,
  input: ServeInput,
  { scope, publish }: { scope: ActivityScope; publish: () => Promise<void> },
): Promise<void> {
  const { run, recipe, policy } = input
  const { urls } = await claimEngines(deps, input)
  const before = new Map((await deps.fleets.plan(run))?.engines.map((engine) => [engine.name, engine]))
  const how = howPublished(recipe.policyServer)
  const serve = async (isAnew: (engine: EnginePlan) => boolean): Promise<boolean> => {
    const plan = await planFor(deps, input, { urls, owner: scope.owner.owner, before, isAnew })
    await deps.fleets.want(plan)
    await untilServing(deps, plan, scope)
    const wasStarted = plan.engines.every((one) => before.get(one.name)?.generation !== one.generation)
    for (const engine of plan.engines) before.set(engine.name, engine)
    return wasStarted
  }
  // The embedded server receives policies by requests, so its command names none.
  const needsRestart = recipe.policyServer.kind !== 'embedded' && how === 'restart'
  const failedBefore = new Set(
    (await deps.fleets.look(run))?.engines.filter(({ phase }) => phase === 'failed').map(({ name }) => name),
  )
  const areFresh = await serve(
    ({ name, policy: last }) => failedBefore.has(name) || (needsRestart && last !== policy.version),
  )
  try {
    await publish()
  } catch (error) {
    if (areFresh || recipe.policyServer.publish === 'reload' || !doesRestartHelp(error)) throw error
    Context.current().log.warn('the engines could not reload the policy in place: restarting them', {
      run,
      policy: policy.version,
      error: (error as Error).message,
    })
    await serve(() => true)
    await publish()
  }
}

/** The engine refused or failed to load the policy, or has held other weights since. */
const RESTART_HELPS: ReadonlySet<FailureCode> = new Set<FailureCode>([
  'Config.Invalid',
  'Model.BadResponse',
  'Model.Biased',
  'Model.CanaryMismatch',
  'Model.NotServed',
  'Model.Unavailable',
])

function doesRestartHelp(error: unknown): boolean {
  return isLonghaulError(error) && RESTART_HELPS.has(error.code)
}

/** Records which host has the engines and where they listen; decided once per run. */
async function claimEngines(
  { store, host }: EngineDependencies,
  { run, launch }: Pick<ServeInput, 'run' | 'launch'>,
): Promise<EnginesRecord> {
  const key = runKeys.engines(run)
  const record =
    (await store.readRecord<EnginesRecord>(key)) ??
    (
      await store.claimRecord<EnginesRecord>(key, {
        schema: 'longhaul.engines/1',
        host,
        urls: await choosePorts(run, launch),
      })
    ).record
  requireThisHost(record, host)
  return record
}

/** Fails the attempt, so that another trainer worker takes the next one, until it is one on the host with the engines. */
function requireThisHost(record: EnginesRecord, host: string): void {
  if (record.host === host) return
  throw new LonghaulError({
    code: 'Model.Unavailable',
    message: `Expected a trainer worker on ${record.host}, where the engines of this run are; this one is on ${host}. Start one there (longhaul worker --role trainer), or begin another run if that host is gone`,
  })
}

/** Below the ephemeral ports, so that a parked engine finds its port free. */
const FIRST_PORT = 20_000
const PORTS = 10_000

async function choosePorts(run: string, { replicas, host, port }: EngineLaunchRecipe): Promise<string[]> {
  const taken = new Set<number>()
  const urls: string[] = []
  for (let index = 0; index < replicas; index++) {
    const start = Number.parseInt(sha256Hex(`${run} ${index}`).slice(0, 8), 16)
    const preferred = Array.from({ length: 50 }, (_, at) => FIRST_PORT + ((start + at) % PORTS))
    const chosen = port === null ? await choosePort({ preferred, taken }) : port + index
    urls.push(`http://${host.includes(':') ? `[${host}]` : host}:${chosen}`)
  }
  return urls
}

async function planFor(
  deps: EngineDependencies,
  { run, recipe, launch, policy }: ServeInput,
  {
    urls,
    owner,
    before,
    isAnew,
  }: {
    urls: readonly string[]
    owner: string
    before: ReadonlyMap<string, EnginePlan>
    isAnew: (engine: EnginePlan) => boolean
  },
): Promise<FleetPlan> {
  const engines = urls.map(async (url, index): Promise<EnginePlan> => {
    const name = `engine-${index}`
    const running = before.get(name)
    const start = await engineCommand({
      recipe,
      launch,
      policy,
      publish: howPublished(recipe.policyServer),
      index,
      url,
      embedded: {
        python: deps.python,
        env: deps.trainerEnv,
        state: join(deps.root, encodeURIComponent(run), `${name}-state`),
      },
      hasKey: deps.hasKey,
    })
    const generation = running === undefined ? Date.now() : running.generation + (isAnew(running) ? 1 : 0)
    return { name, url, generation, policy: policy.version, start }
  })
  return {
    run,
    owner,
    leaseMs: deps.leaseMs,
    startTimeoutMs: launch.startTimeoutS * 1000,
    engines: await Promise.all(engines),
  }
}

/** @throws LonghaulError `Model.EngineFailed` with the engine's output and what to do */
async function untilServing(
  { fleets, host }: EngineDependencies,
  { run, engines }: FleetPlan,
  { signal, beat }: Pick<ActivityScope, 'signal' | 'beat'>,
): Promise<void> {
  beat({ phase: 'starting engines' })
  await Promise.all(
    engines.map(({ name, url, generation }) =>
      waitingFor({ doing: `starting ${name}`, on: { kind: 'policy-server', name: url } }, async () => {
        let saidMs = Date.now()
        for (let tries = 0; ; tries++) {
          const state = await stateOf(fleets, run, { name, generation })
          if (state?.phase === 'serving') return
          if (state?.phase === 'failed') throw failed(state, { run, host })
          if (Date.now() - saidMs >= SAY_EVERY_MS) {
            saidMs = Date.now()
            const forS = Math.round((saidMs - (state?.sinceMs ?? saidMs)) / 1000)
            Context.current().log.info('an engine starts', { run, engine: name, url, forS, log: state?.log })
          }
          // A killed keeper leaves its last state behind.
          if (tries % 10 === 9 && !(await fleets.renew(run))) throw ended(run)
          await sleep(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
        }
      }),
    ),
  )
}

function ended(run: string): LonghaulError {
  return new LonghaulError({
    code: 'Model.Unavailable',
    message: `Expected the engines of ${run} to start, but they were stopped meanwhile`,
  })
}

/** Returns null if no live keeper reports it yet. */
async function stateOf(
  fleets: Fleets,
  run: string,
  { name, generation }: Pick<EnginePlan, 'name' | 'generation'>,
): Promise<EngineState | null> {
  const state = await fleets.look(run)
  if (state === null || livenessOf(state.keeper) !== 'alive') return null
  return state.engines.find((one) => one.name === name && one.generation === generation) ?? null
}

function failed({ name, url, problem, log }: EngineState, { run, host }: { run: string; host: string }): LonghaulError {
  return new LonghaulError({
    code: 'Model.EngineFailed',
    message: `${name} of ${run} did not start on ${host}: ${problem ?? 'it ended'}`,
    details: { url, log },
  })
}

/**
 * Frees the memory of the engines, especially on GPUs, before a training job that shares it. Engines that can sleep do so until the
 * next publishing loads a policy. The others are stopped, and the next publishing starts them.
 */
export async function parkEngines(
  { store, fleets, host, putToSleep }: EngineDependencies,
  { run, recipe, signal }: { run: string; recipe: Recipe; signal: AbortSignal },
): Promise<void> {
  const record = await store.readRecord<EnginesRecord>(runKeys.engines(run))
  if (record === null) return
  requireThisHost(record, host)
  const plan = await fleets.plan(run)
  if (plan === null) return
  const maySleep = sleepsThroughTraining(recipe, howPublished(recipe.policyServer))
  if (maySleep && (await sleepAll({ fleets, putToSleep, plan, signal }))) return
  await fleets.want({ ...plan, engines: [] })
  await waitingFor(
    { doing: 'parking the engines', on: { kind: 'policy-server', name: record.urls.join(' ') } },
    async () => {
      for (;;) {
        const state = await fleets.look(run)
        if (state === null || livenessOf(state.keeper) !== 'alive' || state.engines.length === 0) return
        await sleep(POLL_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    },
  )
}

/** @returns false if one of them did not fall asleep and still holds the memory that the training job needs */
async function sleepAll({
  fleets,
  putToSleep,
  plan,
  signal,
}: Pick<EngineDependencies, 'fleets' | 'putToSleep'> & { plan: FleetPlan; signal: AbortSignal }): Promise<boolean> {
  // Written first, because a keeper must not restart an engine that dies in its sleep while the training job runs.
  await fleets.want({ ...plan, engines: plan.engines.map((engine) => ({ ...engine, isAsleep: true })) })
  try {
    await Promise.all(
      plan.engines.map(({ name, url }) =>
        waitingFor({ doing: `${name} falls asleep`, on: { kind: 'policy-server', name: url } }, () =>
          putToSleep({ url, signal }),
        ),
      ),
    )
    return true
  } catch (error) {
    signal.throwIfAborted()
    Context.current().log.warn('an engine did not go to sleep: ending all engines of the run', {
      run: plan.run,
      error: (error as Error).message,
    })
    return false
  }
}

/** Works even if the run's recipe cannot be read. Engines that cannot be ended now end when a worker sees that the run has closed,
 *  or with their lease. */
export async function endEngines({ fleets }: EngineDependencies, run: string): Promise<void> {
  try {
    await fleets.end(run)
  } catch (error) {
    Context.current().log.warn('the engines of the run could not be ended yet', { run, error: String(error) })
  }
}
