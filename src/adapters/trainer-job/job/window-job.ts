import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { policyKeys } from '../../../contracts/keys.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import type { TrainerRecipe } from '../../../contracts/recipe.types.ts'
import { executionOf, type LaunchedJob, placeOf } from './job-spec.ts'
import { COMMITTED, committedManifest } from './policy-directory.ts'
import { readPolicyFacts } from './policy-facts.ts'
import { windowOf } from './rope-statement.ts'
import { sha256Hex } from '../../../platform/hash.ts'

const WINDOW_FILE = 'window.safetensors'

/** Log-probabilities of a policy with a rope, at positions beyond those of training. */
export interface WindowFile {
  path: string
  /** When a job made the file, ms since 1970; null if the policy already contains it. */
  madeAtMs: number | null
}

export interface WindowJob extends LaunchedJob {
  directory: string
}

export interface WindowJobInput {
  store: ArtifactStore
  trainer: TrainerRecipe
  policy: PolicyRef
  /** Number of CPU threads of the trainer. @default the trainer's own choice */
  threads?: number
}

/** Returns null if the policy has no rope that extends its positions, and `job` if the file must be made first. */
export async function findWindow(input: WindowJobInput): Promise<WindowFile | { job: WindowJob } | null> {
  const { rope } = (await readPolicyFacts(input.policy)).positions
  if (rope === null || windowOf(rope) - 1 <= rope.originalMax) return null
  // A policy that a training job exported contains the file.
  const path = join(fileURLToPath(input.policy.uri), WINDOW_FILE)
  if (await exists(path)) return { path, madeAtMs: null }
  const job = windowJob(input)
  return (await readWindow(job)) ?? { job }
}

/** Returns null until the file is committed. */
export async function readWindow({ directory, key }: WindowJob): Promise<WindowFile | null> {
  if ((await committedManifest(directory))?.manifest['key'] !== key) return null
  return { path: join(directory, WINDOW_FILE), madeAtMs: (await stat(join(directory, COMMITTED))).mtimeMs }
}

/** There is one job per policy, shared by all runs that publish it. */
function windowJob({ store, trainer, policy, threads }: WindowJobInput): WindowJob {
  const { version, uri, manifestSha256 } = policy
  const key = sha256Hex(`longhaul-window/1\n${manifestSha256}\n`)
  const jobId = `window-${key.slice(0, 16)}`
  const jobDirectory = store.path(policyKeys.windowJob(version))
  return {
    key,
    jobId,
    jobDirectory,
    directory: store.path(policyKeys.window(version)),
    artifactRoot: dirname(store.path('runs')),
    ...placeOf(trainer),
    spec: {
      schema: 'longhaul.window/1',
      job_id: jobId,
      key,
      input: { uri, manifest_sha256: manifestSha256 },
      output: { window_uri: pathToFileURL(store.path(policyKeys.window(version))).href },
      work: { job_dir: jobDirectory },
      execution: executionOf(trainer, threads),
    },
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )
}
