import { type JobOwner, type OwnedJob, ownedJobs } from '../adapters/trainer-job/job/job-owners.ts'
import { findLiveAttempt, launchedAttempts } from '../adapters/trainer-job/job/live-attempts.ts'
import { progressAge } from '../adapters/trainer-job/job/attempt-files.ts'
import type { Attempt, Launcher } from '../adapters/trainer-job/launchers/launcher.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { toLonghaulError } from '../contracts/errors.ts'
import type { TrainerRecipe } from '../contracts/recipe.types.ts'
import type { OwnerState } from '../domain/orphaned-resources.ts'
import { type Rounds, startRounds } from './rounds.ts'

/** Each round asks the Temporal server about every job that is noted, and a launcher about those whose runs are over. */
const EVERY_MS = 30_000

export interface JobWatchInput {
  store: ArtifactStore
  namespaceId: string
  host: string
  /** Looks up a workflow by id; null if the server cannot be asked. */
  stateOf: (workflowId: string) => Promise<OwnerState | null>
  /** The workflow that plays a run now, if it is another one. @throws if the server or the store cannot be asked */
  otherPlayerOf: (owner: JobOwner) => Promise<string | null>
  launcherOf: (trainer: TrainerRecipe) => Launcher
  log: { info(message: string, facts: object): void; warn(message: string, facts: object): void }
  /** @default EVERY_MS */
  everyMs?: number
}

type SayOnce = (level: 'info' | 'warn', message: string, facts: { job: string } & Record<string, unknown>) => void

/**
 * Stops training jobs whose runs are over, because a terminated run stops nothing itself, and the worker that followed its job may have
 * died before. A job stays if one of those who have it is open, belongs to the server of another stack, or cannot be asked about; it
 * also stays while its launcher does not answer. Several trainer workers may do this concurrently: to stop a job twice is harmless.
 */
export function startJobWatch(input: JobWatchInput): Rounds {
  const { everyMs = EVERY_MS, log, store } = input
  const said = new Map<string, string>()
  /** Says what happens to a job once, until something else does. */
  const sayOnce: SayOnce = (level, message, facts) => {
    const text = JSON.stringify([message, facts])
    if (said.get(facts.job) === text) return
    said.set(facts.job, text)
    log[level](message, facts)
  }
  const absentSince = new Map<string, number>()
  const look = async (job: OwnedJob, signal: AbortSignal): Promise<void> => {
    const key = job.jobDirectory
    try {
      if (!(await isOver(input, job))) return
      if (!(await endJob({ ...input, job, absentSince, sayOnce, signal }))) return
      await job.forget()
      absentSince.delete(key)
      said.delete(key)
    } catch (error) {
      sayOnce('warn', 'a training job of an ended run could not be ended', {
        job: key,
        error: toLonghaulError(error).message,
      })
    }
  }
  const round = async (signal: AbortSignal): Promise<void> => {
    try {
      await Promise.all((await ownedJobs(store)).map((job) => look(job, signal)))
    } catch (error) {
      sayOnce('warn', 'the training jobs of ended runs could not be looked for', {
        job: '',
        error: toLonghaulError(error).message,
      })
    }
  }
  return startRounds(everyMs, async (signal) => {
    const { promise: stopped, resolve: onStop } = Promise.withResolvers<unknown>()
    signal.addEventListener('abort', onStop, { once: true })
    // A launcher may take minutes to stop a job. The next worker goes on with that.
    await Promise.race([round(signal), stopped])
    signal.removeEventListener('abort', onStop)
  })
}

/** Whether everybody who has the job is known to have ended. */
async function isOver({ namespaceId, stateOf, otherPlayerOf }: JobWatchInput, { owners }: OwnedJob): Promise<boolean> {
  // Only its own server knows a workflow. This one would say that it never existed.
  if (owners.some((owner) => owner.namespaceId !== namespaceId)) return false
  // A stage may outlive its root, and one that was started by hand has none.
  for (const workflowId of new Set(owners.flatMap(({ callerId, workflowId: root }) => [callerId, root]))) {
    const state = await stateOf(workflowId)
    if (state?.kind !== 'closed' && state?.kind !== 'unknown') return false
  }
  for (const owner of owners) if ((await otherPlayerOf(owner)) !== null) return false
  return true
}

interface EndJobInput extends JobWatchInput {
  job: OwnedJob
  absentSince: Map<string, number>
  sayOnce: SayOnce
  signal: AbortSignal
}

/** @returns whether nothing of the job runs any more */
async function endJob(input: EndJobInput): Promise<boolean> {
  const { store, job, host, launcherOf, sayOnce, signal } = input
  const attempts = await launchedAttempts(store, job.jobDirectory)
  const owner = job.owners.at(-1)
  const [newest] = attempts
  if (owner === undefined || newest === undefined) return true
  const launcher = launcherOf(owner.trainer)
  const alive = await findLiveAttempt(launcher, attempts)
  if (alive === null || alive === 'absent') {
    // The engine or the processes of another machine: that they are not here says nothing.
    if (!launcher.isElsewhere && owner.host !== host) return isSilent(newest)
    return alive === null || isLongAbsent(input, launcher)
  }
  const facts = { job: job.jobDirectory, run: owner.run }
  if ('host' in alive) {
    sayOnce('warn', 'a training job outlives its run: only a worker of its host can stop it', {
      ...facts,
      host: alive.host,
    })
    return false
  }
  // The run may have been started again since the look above, and follow this very job.
  const [now] = (await ownedJobs(store)).filter(({ jobDirectory }) => jobDirectory === job.jobDirectory)
  if (signal.aborted || now === undefined || !(await isOver(input, now))) return false
  sayOnce('warn', 'a training job outlived its run and is stopped', { ...facts, fence: alive.fence })
  // The next round sees whether it is gone, and finds an earlier attempt that has outlived it.
  await launcher.stop(alive, alive.job.limits.graceMs)
  return false
}

async function isSilent({ job, fence }: Attempt): Promise<boolean> {
  return (await progressAge(job.jobDirectory, fence)) > job.limits.stallMs
}

/** A launcher may be between its claim and its job, or its scheduler may list the job a little later. */
function isLongAbsent({ job, absentSince }: EndJobInput, { launchMs }: Launcher): boolean {
  const now = performance.now()
  const since = absentSince.get(job.jobDirectory) ?? now
  absentSince.set(job.jobDirectory, since)
  return now - since >= launchMs
}
