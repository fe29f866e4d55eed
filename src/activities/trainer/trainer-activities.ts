import { Context } from '@temporalio/activity'
import type { TrainerActivities } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { verifyCanary } from '../../adapters/policy-server/canary.ts'
import { prepareJob } from '../../adapters/trainer-job/job-spec.ts'
import { writePolicyRef } from '../../adapters/trainer-job/policy-directory.ts'
import type { TrainerCommand } from '../../adapters/trainer-job/process-launcher.ts'
import { runJob } from '../../adapters/trainer-job/run-job.ts'
import { type ActivityScope, activity } from '../activity-runtime.ts'
import type { PolicyClients } from '../policy-clients.ts'
import type { RecipeReader } from '../stored-recipe.ts'
import { withPatience } from './with-patience.ts'

export interface TrainerDependencies {
  store: ArtifactStore
  recipes: RecipeReader
  policies: PolicyClients
  trainer: TrainerCommand
}

/** Training jobs and the publishing of what they make. */
export function createTrainerActivities(deps: TrainerDependencies): TrainerActivities {
  const { store } = deps
  // One job at a time on this machine: two would halve each other's speed and double the memory.
  const oneAtATime = createTurnstile()
  return {
    runTrainingJob: activity((input, scope) =>
      oneAtATime(async () => {
        const job = await prepareJob({ store, recipe: await deps.recipes(input.run), job: input })
        const {
          policy: trained,
          steps,
          loss,
        } = await runJob({
          job,
          command: deps.trainer,
          attempt: scope.attempt,
          signal: scope.signal,
          onProgress: (progress) => scope.beat(progress),
          mayOutlive: isWorkerShutdown,
        })
        const ref = await writePolicyRef({ store, ref: trained })
        return { policy: ref, steps, loss, jobKey: job.key }
      }),
    ),
    publishPolicy: activity(async ({ run, policy: ref }, scope) => {
      const { patienceS } = (await deps.recipes(run)).policyServer
      const sinceMs = Context.current().info.scheduledTimestampMs
      await withPatience({ patienceMs: patienceS * 1000, sinceMs }, () => publishPolicy(deps, run, ref, scope))
    }),
    releasePolicies: activity(async ({ run }) => releasePolicies(deps, run)),
  }
}

/** Leases end by themselves: a server that is gone must not keep a run from ending, or hide why it failed. */
async function releasePolicies({ policies }: TrainerDependencies, run: string): Promise<void> {
  try {
    await (await policies(run)).release({ holder: run })
  } catch (error) {
    Context.current().log.warn('lease not given back, it ends by itself', { run, error: String(error) })
  }
}

/** Median difference of log-probabilities that rounding alone explains, in nats. */
const CANARY_TOLERANCE = { float32: 1e-3, bfloat16: 2e-2 } as const

/** Only after version and canary are verified may an iteration start: HTTP success proves nothing. */
async function publishPolicy(
  { policies, recipes }: TrainerDependencies,
  run: string,
  ref: PolicyRef,
  { signal, beat }: ActivityScope,
): Promise<void> {
  const { policyServer, trainer } = await recipes(run)
  beat({ phase: 'loading', policy: ref.version })
  const client = await policies(run)
  await client.load({ policy: ref, holder: run, leaseMs: policyServer.leaseS * 1000 }, signal)
  beat({ phase: 'verifying', policy: ref.version })
  await verifyCanary({ client, policy: ref, tolerance: CANARY_TOLERANCE[trainer.exportDtype], signal })
}

/** The trainer lives in its own session: a worker that restarts finds it again, so only a cancel stops it. */
function isWorkerShutdown(): boolean {
  return Context.current().cancellationDetails?.workerShutdown === true
}

function createTurnstile(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const mine = last.then(work, work)
    last = mine.catch(() => {})
    return mine
  }
}
