import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { SandboxHandle, SandboxHost, SandboxLimits } from '../../contracts/sandbox.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { scaffoldProfile } from '../../scaffold/profiles.ts'
import type { TaskReader } from '../stored-tasks.ts'
import { episodeSpec } from '../episode-spec.ts'

export interface OpenDependencies {
  store: ArtifactStore
  sandbox: SandboxHost
  recipe: Recipe
  tasks: TaskReader
  /** Makes sure that this host has the task's image. */
  ensureImage: EnsureImage
}

export type EnsureImage = (task: Awaited<ReturnType<TaskReader>>, signal: AbortSignal) => Promise<void>

/** Slack beyond the episode's own limit: capture, close and a restart of the worker happen inside the lease. */
const LEASE_SLACK_MS = 10 * 60_000

export async function openSandbox(
  deps: OpenDependencies,
  input: EpisodeInput & { placement: number; owner: string },
  signal: AbortSignal,
): Promise<SandboxHandle> {
  const spec = episodeSpec(deps.recipe, input)
  await deps.store.putRecord(episodeKeys.spec(spec.episode), spec)
  const task = await deps.tasks({ suite: input.suite, taskId: input.taskId })
  await deps.ensureImage(task, signal)
  return deps.sandbox.open(
    {
      run: input.run,
      episode: episodeId(input),
      role: 'agent',
      placement: input.placement,
      image: task.image,
      repoDir: task.repoDir,
      tools: scaffoldProfile(spec.scaffold).tools,
      limits: sandboxLimits(deps.recipe),
      owner: input.owner,
      leaseMs: LEASE_SLACK_MS,
    },
    signal,
  )
}

export function sandboxLimits({ sandbox }: Recipe): SandboxLimits {
  return { cpus: sandbox.limit.cpu, memoryMiB: sandbox.limit.memGiB * 1024, pids: sandbox.limit.pids }
}
