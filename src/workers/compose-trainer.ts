import { hostname } from 'node:os'
import { fileURLToPath } from 'node:url'
import { Context } from '@temporalio/activity'
import { Runtime } from '@temporalio/worker'
import { type Fleets, fleetsRoot, openFleets } from '../adapters/engines/fleets.ts'
import { createLauncher } from '../adapters/trainer-job/launchers/create-launcher.ts'
import type { Launcher } from '../adapters/trainer-job/launchers/launcher.types.ts'
import { BATCH_FILE, BATCH_MANIFEST } from '../adapters/trainer-job/batch/batch-writer.ts'
import { type LaunchedJob, type PreparedJob, directoryOf, prepareJob } from '../adapters/trainer-job/job/job-spec.ts'
import { writePolicyRef } from '../adapters/trainer-job/job/policy-directory.ts'
import { whileOwned } from '../adapters/trainer-job/job/job-owners.ts'
import { readKept, runJob } from '../adapters/trainer-job/job/run-job.ts'
import type { WindowFile } from '../adapters/trainer-job/job/window-job.ts'
import { type ActivityScope, activity } from '../activities/runtime/activity-runtime.ts'
import { type RootRegistry, callingRoot, findOtherPlayer, playAlone } from '../activities/run/play-alone.ts'
import { requireJobBefore, requireOwnBatch } from '../activities/run/require-recorded.ts'
import { endJobs } from '../activities/training/end-jobs.ts'
import { endOfWaiting } from '../activities/training/end-of-waiting.ts'
import { createMutex, followJob, haveWindow } from '../activities/training/follow-job.ts'
import {
  type EngineDependencies,
  endEngines,
  launchOf,
  parkEngines,
  publishOnEngines,
} from '../activities/training/launched-engines.ts'
import { type PublishDependencies, publishPolicy, releasePolicies } from '../activities/training/publish-policy.ts'
import { recordJob, recordTraining } from '../activities/training/record-training.ts'
import { referencePolicy } from '../activities/training/policies.ts'
import { createTracking } from '../activities/trackers/send-metrics.ts'
import type { PolicyRef } from '../contracts/policy.types.ts'
import type { TrainerRecipe } from '../contracts/recipe.types.ts'
import type { TrainerActivities, TrainingJobInput } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { createRecipeReader } from '../activities/runtime/stored-records.ts'
import { QUEUES, workflowIds } from '../contracts/workflow-ids.ts'
import type { Composed } from './compose-role.ts'
import { startJobWatch } from './job-watch.ts'
import { type Rounds, startRounds } from './rounds.ts'
import { type Interposers, chatClientsOf, connectStore, policyClientsOf, putToSleep } from './connect.ts'
import type { WorkerEnvironment } from './worker-environment.ts'
import type { FleetPlan } from '../adapters/engines/fleet-files.ts'
import { toLonghaulError } from '../contracts/errors.ts'
import type { OwnerState } from '../domain/orphaned-resources.ts'

/** Training jobs wait for each other inside the process. The other slots keep publishing and releasing from waiting behind a job of
 *  hours. */
const SLOTS = 4

/** Looks up the workflows of the runs that this worker serves. */
interface RunOwners {
  namespaceId: string
  stateOf: StateOf
  roots: RootRegistry
}

export async function composeTrainer(
  environment: WorkerEnvironment,
  between: Interposers,
  { namespaceId, stateOf, roots }: RunOwners,
): Promise<Composed> {
  const store = await connectStore(environment, between)
  const recipes = createRecipeReader(store)
  const trainerPackage = fileURLToPath(new URL('../../trainer', import.meta.url))
  const trainerEnv = { PYTHONPATH: trainerPackage }
  const { enginesDir, hostId, leaseMs, policyApiKey, python } = environment
  const root = fleetsRoot(enginesDir, namespaceId)
  const fleets = openFleets(root)
  const log = Runtime.instance().logger
  const host = hostId ?? hostname()
  const launcherOf = createLauncher({ python, env: trainerEnv })
  const watches = [
    startEngineWatch({ fleets, stateOf, leaseMs, log }),
    startJobWatch({
      store,
      namespaceId,
      host,
      stateOf,
      otherPlayerOf: ({ run, workflowId, runId }) =>
        findOtherPlayer({ store, roots, run, player: { workflowId, runId } }),
      launcherOf,
      log,
    }),
  ]
  return {
    workers: [
      {
        taskQueue: QUEUES.trainer,
        maxConcurrentActivityTaskExecutions: SLOTS,
        activities: createTrainerActivities({
          store,
          roots,
          recipes,
          policies: policyClientsOf(environment, { recipes, store }, between.policy),
          chats: chatClientsOf(recipes),
          launcherOf,
          namespaceId,
          engines: {
            store,
            fleets,
            root,
            host,
            python,
            trainerEnv,
            hasKey: policyApiKey !== null,
            putToSleep,
            leaseMs,
          },
        }),
      },
    ],
    dispose: async () => {
      await Promise.all(watches.map((watch) => watch.stop()))
    },
  }
}

function isOnThisMachine(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? ''
  return host === 'localhost' || host === '[::1]' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host)
}

interface TrainerDependencies extends PublishDependencies {
  store: ArtifactStore
  roots: RootRegistry
  launcherOf: (trainer: TrainerRecipe) => Launcher
  namespaceId: string
  engines: EngineDependencies
}

/** Composes training jobs and the publishing of their policies. */
function createTrainerActivities(deps: TrainerDependencies): TrainerActivities {
  const { store, launcherOf } = deps
  const oneAtATime = createMutex()
  const track = createTracking(deps)

  /** Notes for whom a job runs, so that it can be ended if its run ends while no worker follows it. */
  const ownedBy =
    (run: string, trainer: TrainerRecipe, { owner }: ActivityScope) =>
    <T>(job: LaunchedJob, work: () => Promise<T>): Promise<T> => {
      const { namespaceId, engines } = deps
      const callerId = owner.owner
      const workflows = { workflowId: rootOf({ owner: callerId, run }), callerId, runId: owner.ownerRun }
      const noted = { namespaceId, run, ...workflows, host: engines.host, trainer }
      return whileOwned({ store, job, owner: noted }, work)
    }

  /** The output is stored before its version is announced, so that another host can continue from it. */
  const train = async ({ run, policy, batch }: TrainingJobInput, job: PreparedJob, scope: ActivityScope) => {
    const { signal } = scope
    const recipe = await deps.recipes(run)
    const launcher = launcherOf(recipe.trainer)
    if (launcher.isElsewhere) store.weights.requireSeenBy('every node of the trainer’s scheduler')
    if (launchOf(recipe)?.placement === 'shared') await parkEngines(deps.engines, { run, recipe, signal })
    const part = policy.checkpointUri === null ? 'policy' : 'checkpoint'
    const folders = [{ key: directoryOf(batch.key), files: [BATCH_FILE, BATCH_MANIFEST] }]
    return store.weights.use({ policy, part, folders, signal }, async () => {
      const whileRunOwns = ownedBy(run, recipe.trainer, scope)
      const result = await whileRunOwns(job, () =>
        followJob(launcher, scope, { jobId: job.jobId, doing: 'training' }, (following) =>
          runJob({ job, ...following }),
        ),
      )
      const kept = await store.weights.keep({ policy: result.policy, signal })
      return (await readKept(store, job)) ?? { ...result, policy: kept }
    })
  }

  /** Keeps the reference policy on this machine for as long as the job may read it. */
  const withReference = <T>(policy: PolicyRef | null, { signal }: ActivityScope, work: () => Promise<T>): Promise<T> =>
    policy === null ? work() : store.weights.use({ policy, part: 'policy', signal }, work)

  const record = async (
    job: TrainingJobInput,
    measured: Pick<Parameters<typeof recordTraining>[0], 'recipe' | 'policy' | 'metrics'>,
    { signal }: ActivityScope,
  ): Promise<string | null> => {
    try {
      return await recordTraining({ store, job, ...measured })
    } finally {
      // Sent for a diverged job too, because its figures show how it diverged.
      await track(job.run, signal)
    }
  }

  return {
    runTrainingJob: activity(async (input, scope) => {
      requireOwnBatch(input)
      await requireJobBefore(store, input)
      const recipe = await deps.recipes(input.run)
      const launcher = launcherOf(recipe.trainer)
      const run = async () => {
        const reference = await referencePolicy({ store, recipe }, input)
        const job = await prepareJob({ store, recipe, job: input, reference })
        const {
          policy: trained,
          steps,
          loss,
          metrics,
        } = (await readKept(store, job)) ?? (await withReference(reference, scope, () => train(input, job, scope)))
        await recordJob({ store, input, job, trained })
        const hold = await record(input, { recipe, policy: trained.version, metrics }, scope)
        const ref = await writePolicyRef({ store, ref: trained })
        return { policy: ref, steps, loss, jobKey: job.key, ...(hold === null ? {} : { hold }) }
      }
      return launcher.isElsewhere ? run() : oneAtATime(run)
    }),
    publishPolicy: activity(async ({ run, policy: ref }, scope) => {
      const player = callingRoot()
      if (player !== null) await playAlone({ store, roots: deps.roots, run, player })
      const recipe = await deps.recipes(run)
      const { policyServer, trainer } = recipe
      const { failing, startedMs } = scope
      const waiting = { unavailableTimeoutMs: policyServer.patienceS * 1000, failing, startedMs }
      const windowOf = async (): Promise<WindowFile | null> => {
        const launcher = launcherOf(trainer)
        const window = await haveWindow(
          { store, trainer, policy: store.weights.local(ref) },
          { launcher, scope, oneAtATime, whileOwned: ownedBy(run, trainer, scope) },
        )
        // The wait for the server starts now, because the trainer was working until now.
        waiting.startedMs = Date.now()
        return window
      }
      const publish = (served: PolicyRef) => publishPolicy(deps, { run, ref: served, windowOf }, scope)
      // Chat endpoints are externally managed.
      if (policyServer.kind === 'chat') return endOfWaiting(waiting, () => publish(ref))
      const launch = launchOf(recipe)
      if (launch === null) {
        for (const { url } of (await deps.policies(run)).servers) {
          if (!isOnThisMachine(url)) store.weights.requireSeenBy(`the policy server ${url}`)
        }
      }
      const local = store.weights.local(ref)
      const lease = { part: 'policy', afterMs: policyServer.leaseS * 1000, signal: scope.signal } as const
      await store.weights.use({ policy: ref, ...lease }, async () => {
        // The wait for the server starts now, because its weights were being downloaded until now.
        waiting.startedMs = Date.now()
        if (launch === null) return endOfWaiting(waiting, () => publish(local))
        // Done before the engines start, because both need the same GPUs or memory.
        if (launch.placement === 'shared') await windowOf()
        return endOfWaiting(waiting, () =>
          publishOnEngines(
            deps.engines,
            { run, recipe, launch, policy: local },
            {
              scope,
              publish: () => {
                // The wait starts now, because the engine has only just started.
                waiting.startedMs = Date.now()
                return publish(local)
              },
            },
          ),
        )
      })
    }),
    releasePolicies: activity(async ({ run }, { signal }) => {
      const player = callingRoot()
      const other = player === null ? null : await findOtherPlayer({ store, roots: deps.roots, run, player })
      if (other !== null) {
        Context.current().log.warn('policies not released, because another workflow plays the run', { run, other })
        return
      }
      await endJobs({ store, run, launcher: async () => launcherOf((await deps.recipes(run)).trainer), signal })
      await endEngines(deps.engines, run)
      return releasePolicies(deps, run)
    }),
  }
}

/** Looks up a workflow by id; null if the server cannot be asked. */
type StateOf = (workflowId: string) => Promise<OwnerState | null>

/** Maximum time until a killed keeper is noticed. Its sessions move to other servers meanwhile. */
const LONGEST_ROUND_MS = 10_000

interface EngineWatchInput {
  fleets: Fleets
  stateOf: StateOf
  leaseMs: number
  log: { info(message: string, facts: object): void; warn(message: string, facts: object): void }
}

/**
 * Renews the leases of this host's engines, restarts a keeper that died, and ends engines after their run's workflow has closed,
 * because a terminated run ends nothing itself. If the server cannot be asked, nothing changes. Several trainer workers of a host may
 * do this concurrently.
 */
function startEngineWatch({ fleets, stateOf, leaseMs, log }: EngineWatchInput): Rounds {
  const look = async (plan: FleetPlan): Promise<void> => {
    const { run } = plan
    try {
      const state = await stateOf(rootOf(plan))
      if (state?.kind === 'closed' || state?.kind === 'unknown') {
        log.info('the run is over: its engines end', { run })
        await fleets.end(run)
      } else {
        await fleets.renew(run)
      }
    } catch (error) {
      log.warn('the engines of a run could not be checked', { run, error: toLonghaulError(error).message })
    }
  }
  // Two renewals may be lost before the third comes too late.
  return startRounds(Math.min(LONGEST_ROUND_MS, leaseMs / 3), async () => {
    await Promise.all((await fleets.list()).map(look))
  })
}

/** Returns the root workflow's id, because a stage requests engines too and closes before its run. */
function rootOf({ owner, run }: Pick<FleetPlan, 'owner' | 'run'>): string {
  const roots = [workflowIds.train(run), workflowIds.evaluation(run)]
  return roots.find((root) => owner === root || owner.startsWith(`${root}/`)) ?? owner
}
