import { fileURLToPath } from 'node:url'
import { createLauncher } from '../adapters/trainer-job/launchers/create-launcher.ts'
import type { TrainerCommand } from '../adapters/trainer-job/launchers/process-launcher.ts'
import { prepareJob } from '../adapters/trainer-job/job/job-spec.ts'
import { writePolicyRef } from '../adapters/trainer-job/job/policy-directory.ts'
import { runJob } from '../adapters/trainer-job/job/run-job.ts'
import type { WindowFile } from '../adapters/trainer-job/job/window-job.ts'
import { activity } from '../activities/runtime/activity-runtime.ts'
import { endOfWaiting } from '../activities/training/end-of-waiting.ts'
import { createMutex, followJob, haveWindow } from '../activities/training/follow-job.ts'
import { type PublishDependencies, publishPolicy, releasePolicies } from '../activities/training/publish-policy.ts'
import { recordTraining } from '../activities/training/record-training.ts'
import type { TrainerActivities } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { createRecipeReader } from '../activities/runtime/stored-records.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import type { Composed } from './compose-role.ts'
import { connectStore, chatClientsOf, policyClientsOf, type Interposers } from './connect.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** Jobs wait for each other inside the process; further slots keep publishing and releasing from waiting for a job of hours. */
const SLOTS = 4

export async function composeTrainer(environment: WorkerEnvironment, between: Interposers): Promise<Composed> {
  const store = connectStore(environment, between)
  const recipes = createRecipeReader(store)
  const trainerPackage = fileURLToPath(new URL('../../trainer', import.meta.url))
  return {
    workers: [
      {
        taskQueue: QUEUES.trainer,
        maxConcurrentActivityTaskExecutions: SLOTS,
        activities: createTrainerActivities({
          store,
          recipes,
          policies: policyClientsOf(environment, recipes, between.policy),
          chats: chatClientsOf(recipes),
          trainer: { python: environment.python, env: { PYTHONPATH: trainerPackage } },
        }),
      },
    ],
    dispose: async () => {},
  }
}

interface TrainerDependencies extends PublishDependencies {
  store: ArtifactStore
  trainer: TrainerCommand
}

/** Training jobs and the publishing of what they make. */
function createTrainerActivities(deps: TrainerDependencies): TrainerActivities {
  const { store } = deps
  const launcherOf = createLauncher(deps.trainer)
  const oneAtATime = createMutex()
  return {
    runTrainingJob: activity(async (input, scope) => {
      const recipe = await deps.recipes(input.run)
      const launcher = launcherOf(recipe.trainer)
      const run = async () => {
        const job = await prepareJob({ store, recipe, job: input })
        const {
          policy: trained,
          steps,
          loss,
          metrics,
        } = await followJob(launcher, scope, { jobId: job.jobId, doing: 'training' }, (following) =>
          runJob({ job, ...following }),
        )
        const hold = await recordTraining({ store, recipe, job: input, policy: trained.version, metrics })
        const ref = await writePolicyRef({ store, ref: trained })
        return { policy: ref, steps, loss, jobKey: job.key, ...(hold === null ? {} : { hold }) }
      }
      return launcher.isElsewhere ? run() : oneAtATime(run)
    }),
    publishPolicy: activity(async ({ run, policy: ref }, scope) => {
      const { policyServer, trainer } = await deps.recipes(run)
      const { failing, startedMs } = scope
      const waiting = { unavailableTimeoutMs: policyServer.patienceS * 1000, failing, startedMs }
      const windowOf = async (): Promise<WindowFile | null> => {
        const launcher = launcherOf(trainer)
        const window = await haveWindow({ store, trainer, policy: ref }, { launcher, scope, oneAtATime })
        // The server is waited for since then, not while the trainer was at work.
        waiting.startedMs = Date.now()
        return window
      }
      await endOfWaiting(waiting, () => publishPolicy(deps, { run, ref, windowOf }, scope))
    }),
    releasePolicies: activity(async ({ run }) => releasePolicies(deps, run)),
  }
}
