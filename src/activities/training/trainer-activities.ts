import { hostname } from 'node:os'
import { Context } from '@temporalio/activity'
import type { TrainerActivities } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { selfCheck } from '../../adapters/policy-server/self-check.ts'
import { verifyCanary, verifyWindow } from '../../adapters/policy-server/canary.ts'
import { prepareJob } from '../../adapters/trainer-job/job/job-spec.ts'
import { writePolicyRef } from '../../adapters/trainer-job/job/policy-directory.ts'
import { createLauncher } from '../../adapters/trainer-job/launchers/create-launcher.ts'
import type { Launcher } from '../../adapters/trainer-job/launchers/launcher.types.ts'
import type { TrainerCommand } from '../../adapters/trainer-job/launchers/process-launcher.ts'
import { runJob, type RunJobInput, runUntilCommitted } from '../../adapters/trainer-job/job/run-job.ts'
import {
  findWindow,
  readWindow,
  type WindowFile,
  type WindowJobInput,
} from '../../adapters/trainer-job/job/window-job.ts'
import { type ActivityScope, activity } from '../runtime/activity-runtime.ts'
import type { ChatClients, PolicyClients } from '../runtime/policy-clients.ts'
import type { RecipeReader } from '../runtime/stored-records.ts'
import { recordTraining } from './record-training.ts'
import { waitingFor } from '../runtime/wait-board.ts'
import { endOfWaiting } from './end-of-waiting.ts'

export interface TrainerDependencies {
  store: ArtifactStore
  recipes: RecipeReader
  policies: PolicyClients
  chats: ChatClients
  trainer: TrainerCommand
}

/** Training jobs and the publishing of what they make. */
export function createTrainerActivities(deps: TrainerDependencies): TrainerActivities {
  const { store } = deps
  const launcherOf = createLauncher(deps.trainer)
  // One job at a time on this machine: two would halve each other's speed and double the memory.
  const oneAtATime = createTurnstile()
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
        } = await follow(launcher, scope, { jobId: job.jobId, doing: 'training' }, (following) =>
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
      const waiting = { patienceMs: policyServer.patienceS * 1000, failing, startedMs }
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

/**
 * What a server of a policy with a rope is held against. Exports have it; of a base policy the trainer computes it once, because
 * nothing but the trainer knows what the weights say there.
 */
async function haveWindow(
  input: WindowJobInput,
  { launcher, scope, oneAtATime }: { launcher: Launcher; scope: ActivityScope; oneAtATime: OneAtATime },
): Promise<WindowFile | null> {
  const found = await findWindow(input)
  if (found === null || !('job' in found)) return found
  const run = () =>
    follow(launcher, scope, { jobId: found.job.jobId, doing: WINDOW }, (following) =>
      runUntilCommitted({ job: found.job, ...following }, readWindow),
    )
  return launcher.isElsewhere ? run() : oneAtATime(run)
}

const WINDOW = 'scoring the policy beyond its native window'

/** Since when it is waited for is the trainer's last sign of work: a process that lives and does nothing shows. */
function follow<Result>(
  launcher: Launcher,
  { attempt, signal, beat }: ActivityScope,
  { jobId, doing }: { jobId: string; doing: string },
  run: (following: Omit<RunJobInput, 'job'>) => Promise<Result>,
): Promise<Result> {
  const on = { kind: 'trainer', name: `job ${jobId} on ${hostname()}` } as const
  let lastProgressMs = 0
  return waitingFor({ doing, on }, ({ progressed }) =>
    run({
      launcher,
      attempt,
      signal,
      onProgress: (progress) => {
        // By our clock, from the moment it was seen: clocks need not agree.
        if (progress.lastProgressMs !== lastProgressMs) progressed(Date.now())
        lastProgressMs = progress.lastProgressMs
        beat(progress)
      },
      mayOutlive: isWorkerShutdown,
    }),
  )
}

/** Leases end by themselves: a server that is gone must not keep a run from ending, or hide why it failed. */
async function releasePolicies({ policies, recipes }: TrainerDependencies, run: string): Promise<void> {
  try {
    if ((await recipes(run)).policyServer.kind === 'chat') return
    await (await policies(run)).release({ holder: run })
  } catch (error) {
    Context.current().log.warn('lease not given back, it ends by itself', { run, error: String(error) })
  }
}

/** Median difference of log-probabilities that rounding alone explains, in nats. */
const CANARY_TOLERANCE = { float32: 1e-3, bfloat16: 2e-2 } as const

/** Only after version, canary and sampling are verified on every server may an iteration start: HTTP success proves nothing. */
async function publishPolicy(
  { policies, chats, recipes }: TrainerDependencies,
  { run, ref, windowOf }: { run: string; ref: PolicyRef; windowOf: () => Promise<WindowFile | null> },
  { signal, beat }: ActivityScope,
): Promise<void> {
  const { policyServer, trainer } = await recipes(run)
  // Its owner serves it: there is nothing to load, and nothing that would prove its weights.
  if (policyServer.kind === 'chat') return (await chats(run)).check(signal)
  beat({ phase: 'loading', policy: ref.version })
  const pool = await policies(run)
  await pool.load({ policy: ref, holder: run, leaseMs: policyServer.leaseS * 1000 }, signal)
  // After the servers have answered: one that is away is named at once, and the trainer does not work in vain.
  const window = await windowOf()
  beat({ phase: 'verifying', policy: ref.version })
  const tolerance = CANARY_TOLERANCE[trainer.exportDtype]
  for (const { url, client } of pool.servers) {
    try {
      await verifyCanary({ client, policy: ref, tolerance, signal })
      if (window !== null) {
        await verifyWindow({ client, policy: ref.version, path: window.path, tolerance, signal })
      }
      await selfCheck({ client, policy: ref.version, tolerance, signal })
    } catch (error) {
      if (!isLonghaulError(error)) throw error
      const { code, message, details } = error
      throw new LonghaulError({ code, message, details: { ...details, server: url }, cause: error })
    }
  }
}

/** The trainer lives in its own session: a worker that restarts finds it again, so only a cancel stops it. */
function isWorkerShutdown(): boolean {
  return Context.current().cancellationDetails?.workerShutdown === true
}

type OneAtATime = <T>(work: () => Promise<T>) => Promise<T>

function createTurnstile(): OneAtATime {
  /** Never rejects. */
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const before = last
    const mine = (async () => {
      const on = { kind: 'trainer', name: `this machine, ${hostname()}` } as const
      await waitingFor({ doing: 'waiting for another training job to end', on }, () => before)
      return work()
    })()
    last = mine.catch(() => {})
    return mine
  }
}
