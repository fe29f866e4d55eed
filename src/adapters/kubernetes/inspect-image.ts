import { readScript } from '../docker/sandbox/runner-files.ts'
import { wrongRepository } from '../docker/images/check-repository.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { toClusterError } from './cluster-errors.ts'
import { inFreshPod } from './fresh-pod.ts'
import { scrub, SCRUB_MS } from './open-pod.ts'
import { runScriptInPod } from './pod-access.ts'
import type { Pod } from './pod-spec.ts'
import { statusOfSandbox } from './pod-state.ts'
import { type PodContext, requireDigest } from './start-pod.ts'

/** The workflow that asks, for the reaper. */
export interface Asker {
  run: string
  owner: string
  ownerRun?: string
}

/** git reads only a few objects; the rest is slack for a loaded node. */
const CHECK_MS = 2 * 60_000
/** Repacking a large repository takes this much. */
const LIMITS = { cpus: 1, memoryMiB: 4096, pids: 256 }

/** @returns the digest of the image, and whether a registry gave it */
export function imageInPod(
  context: PodContext,
  task: Task,
  asker: Asker,
  signal: AbortSignal,
): Promise<{ digest: string; registryDigest: string | null }> {
  return looking(context, { task, asker, what: 'look' }, signal, async ({ pod }) => {
    const digest = requireDigest(pod, task)
    return { digest, registryDigest: isOfRegistry(pod) ? digest : null }
  })
}

/**
 * Checks in a pod that an image's repository is at the task's commit and that its history can be removed.
 * @returns HEAD of the repository
 * @throws LonghaulError `Sandbox.ImageUnsuitable` with what was found
 */
export function checkImageInPod(context: PodContext, task: Task, asker: Asker, signal: AbortSignal): Promise<string> {
  const { cluster } = context
  const { image, repoDir, baseCommit: commit } = task
  return looking(context, { task, asker, what: 'check' }, signal, async ({ name }) => {
    const script = await readScript('check-repository.sh')
    const { exitCode, said } = await runScriptInPod(cluster, name, [script, repoDir, commit], CHECK_MS)
    const head = /^[0-9a-f]{40,64}$/m.exec(said)?.[0] ?? ''
    if (exitCode !== 0) throw wrongRepository({ image, repoDir, commit, head, exitCode })
    await scrub(cluster, name, { image, repoDir })
    return head
  })
}

interface Looking {
  task: Task
  asker: Asker
  what: string
}

async function looking<T>(
  context: PodContext,
  { task: { taskId, image }, asker, what }: Looking,
  signal: AbortSignal,
  work: (started: { name: string; pod: Pod }) => Promise<T>,
): Promise<T> {
  const holder = {
    ...asker,
    episode: taskId,
    role: 'gate' as const,
    image,
    limits: LIMITS,
    leaseMs: CHECK_MS + SCRUB_MS,
  }
  const parts = ['image', what, taskId, sha256Hex(`${asker.owner} ${image}`).slice(0, 8)]
  try {
    return await inFreshPod(context, { parts, holder, runMs: CHECK_MS + SCRUB_MS }, signal, work)
  } catch (error) {
    if (signal.aborted && error === signal.reason) throw error
    throw toClusterError(error, { doing: 'looking into an image', details: { image } })
  }
}

function isOfRegistry(pod: Pod): boolean {
  return statusOfSandbox(pod)?.imageID?.includes('@') ?? false
}
