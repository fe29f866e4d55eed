import { rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { trainerJobKeys } from '../../../contracts/keys.ts'
import type { TrainerRecipe } from '../../../contracts/recipe.types.ts'
import { namesIn, readJson, writeFileAtomically } from '../../../platform/files.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import type { LaunchedJob } from './job-spec.ts'

/** For whom a worker starts or follows a job. */
export interface JobOwner {
  /** Of the Temporal server that knows the workflow. */
  namespaceId: string
  run: string
  /** Root workflow of the run. */
  workflowId: string
  /** The workflow whose activity has the job, which is the root or one of its stages, and its execution. */
  callerId: string
  runId: string
  /** Host of the worker: jobs on its own machine or engine are seen from there alone. */
  host: string
  trainer: TrainerRecipe
}

interface OwnerRecord extends JobOwner {
  schema: 'longhaul.job-owner/1'
  /** Directory of the job, below the artifact root. */
  directory: string
  sinceMs: number
}

/** A job that may run, and everybody who has it. */
export interface OwnedJob {
  jobDirectory: string
  /** The last one to take it up comes last. */
  owners: JobOwner[]
  /** Forgets the owners above. Those who have come since stay. */
  forget(): Promise<void>
}

/**
 * Notes who has a job, before it is launched, until its output is committed. The notes lie beside the job's files, so that every worker
 * that could ask the launcher finds them, also one that starts after the last worker of the run has died.
 */
export async function whileOwned<T>(
  input: { store: ArtifactStore; job: LaunchedJob; owner: JobOwner },
  work: () => Promise<T>,
): Promise<T> {
  const { store, job, owner } = input
  const directory = relative(job.artifactRoot, job.jobDirectory)
  const record: OwnerRecord = { schema: 'longhaul.job-owner/1', ...owner, directory, sinceMs: Date.now() }
  const path = join(store.path(trainerJobKeys.all), nameOf(record))
  await writeFileAtomically(path, `${JSON.stringify(record)}\n`)
  const result = await work()
  // After any other end the job may run: it then stays noted until a watch has seen that it does not.
  await rm(path, { force: true })
  return result
}

/** One for each execution, so that forgetting an ended one leaves that of a run which was started again under its name. */
function nameOf({ directory, namespaceId, callerId, runId }: OwnerRecord): string {
  return `${sha256Hex([directory, namespaceId, callerId, runId].join('\n'))}.json`
}

/** All jobs that somebody has noted and nobody forgotten. */
export async function ownedJobs(store: ArtifactStore): Promise<OwnedJob[]> {
  const folder = store.path(trainerJobKeys.all)
  const paths = (await namesIn(folder)).filter((name) => name.endsWith('.json')).map((name) => join(folder, name))
  const records = await Promise.all(paths.map((path) => readJson<OwnerRecord>(path)))
  const jobs = Map.groupBy(
    records.filter((record) => record !== null),
    ({ directory }) => directory,
  )
  return [...jobs].map(([directory, owners]) => ({
    jobDirectory: store.path(directory),
    owners: owners.toSorted((a, b) => a.sinceMs - b.sinceMs),
    async forget() {
      await Promise.all(owners.map((owner) => rm(join(folder, nameOf(owner)), { force: true })))
    },
  }))
}
