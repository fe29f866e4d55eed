import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradedPatch } from '../../contracts/sandbox.types.ts'
import { failed } from '../docker/grader/grade-output.ts'
import { deletePod } from './list-pods.ts'
import { type Pod, podDeviations, podName, podSpec } from './pod-spec.ts'
import { ensureNetworkPolicy, ensureRunnerMap } from './runner-map.ts'
import { START_MS } from './pod-state.ts'
import { createPod, deviating, type PodContext, untilRunning } from './start-pod.ts'

/** Limit for the deletion of an earlier attempt's pod. */
const GONE_MS = 60_000
const LOOK_MS = 250

interface FreshPodInput {
  /** Parts of its name: an earlier attempt at the same work has the same. */
  parts: readonly string[]
  holder: Omit<GradedPatch, 'repoDir' | 'patch'>
  /** Limit of the work in it. */
  runMs: number
}

/**
 * Works in a new pod that belongs to no agent, and deletes it. Its runner keeps no journal and only isolates what `enter` starts.
 * @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.PullFailed`, `Sandbox.EngineUnavailable`, `Sandbox.Unsafe`; `Grading.Failed` if
 *  the cluster took it away before it ran
 */
export async function inFreshPod<T>(
  context: PodContext,
  input: FreshPodInput,
  signal: AbortSignal,
  work: (started: { name: string; pod: Pod }) => Promise<T>,
): Promise<T> {
  const { cluster } = context
  const asked = await askedPod(context, input)
  const { name } = asked.metadata
  let only: string | undefined
  const onMade = ({ metadata }: Pod): void => {
    only = metadata.uid
  }
  try {
    const pod = await context.starting.use(() => start(context, asked, onMade, signal), signal)
    return await work({ name, pod })
  } finally {
    // What was found stays true. The reaper deletes what is left. A later attempt may have taken over the name.
    await deletePod(cluster, name, { only }).catch((error: unknown) =>
      context.log('pod: not deleted', { pod: name, why: String(error) }),
    )
  }
}

async function askedPod(context: PodContext, { parts, holder, runMs }: FreshPodInput): Promise<Pod> {
  const { cluster, seccompProfile, runtime, namespaceId, hostId } = context
  const { run, episode, role, leaseMs, owner, ownerRun, expectedDigest = '' } = holder
  // No worker renews a lease: the deadline of the pod ends it if its worker is gone. It counts from the first pull of the image.
  const maxLifeMs = runMs + START_MS
  return podSpec({
    input: holder,
    name: podName(parts),
    serves: 'grader',
    leaseMs: maxLifeMs,
    runnerMap: await ensureRunnerMap(cluster),
    seccompProfile,
    runtime,
    labels: {
      run,
      episode,
      role,
      fence: 1,
      leaseMs,
      maxLifeMs,
      owner,
      ownerRun,
      namespaceId,
      host: hostId,
      imageDigest: expectedDigest,
    },
  })
}

/** Nothing is kept between attempts, so the pod of an earlier one is deleted and never adopted. */
async function start(context: PodContext, asked: Pod, onMade: (pod: Pod) => void, signal: AbortSignal): Promise<Pod> {
  const { cluster } = context
  const { name } = asked.metadata
  await ensureNetworkPolicy(cluster)
  let made = await createPod(cluster, asked)
  for (const until = performance.now() + GONE_MS; made === null; made = await createPod(cluster, asked)) {
    if (performance.now() > until) throw failed(`The pod ${name} of an earlier attempt was not deleted in time`)
    await deletePod(cluster, name)
    await sleep(LOOK_MS, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
  onMade(made)
  const deviations = podDeviations(asked, made)
  if (deviations.length > 0) throw deviating('Sandbox.Unsafe', name, deviations)
  const image = asked.spec.containers[0]?.image ?? ''
  return await untilRunning(context, made, image, signal).catch(retriedIfLost)
}

/** This work starts again in another pod, where an agent's sandbox would have to be placed anew. */
function retriedIfLost(error: unknown): never {
  if (error instanceof LonghaulError && error.code === 'Sandbox.Lost') throw failed(error.message)
  throw error
}
