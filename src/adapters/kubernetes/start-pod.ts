import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import type { OpenSandboxInput } from '../../contracts/sandbox.types.ts'
import type { RelayPool } from '../docker/sandbox/relay/relay-pool.ts'
import type { RunnerPool } from '../docker/sandbox/runner-pool.ts'
import type { Slots } from '../../platform/limiter.ts'
import { ClusterRefusal } from './cluster-errors.ts'
import type { Cluster } from './cluster.ts'
import { readPod } from './pod-access.ts'
import type { Pod } from './pod-spec.ts'
import { START_MS, blockOf, endOf, isRunning, isTakenAway, statusOfSandbox } from './pod-state.ts'

/** The state that all operations of one namespace share. */
export interface PodContext {
  cluster: Cluster
  hostId: string
  hostQueue: string
  namespaceId: string
  /** Limits concurrent pod starts. */
  starting: Slots
  /** Limits concurrent gradings of this worker, each of which holds its slot while its tests run. */
  grading: Slots
  runners: RunnerPool
  relays: RelayPool
  runtime: string | null
  seccompProfile: string
  maxLifeMs: number
  log(message: string, facts: Record<string, string | number>): void
}

/** How long a pod may wait in the scheduler's queue for other sandboxes to end. */
const ROOM_MS = 10 * 60_000

/** Returns null if the name is taken. */
export async function createPod(cluster: Cluster, asked: Pod): Promise<Pod | null> {
  try {
    return (await cluster.ask({ method: 'POST', path: cluster.pathOf('pods'), body: asked })) as Pod
  } catch (error) {
    if (error instanceof ClusterRefusal && error.reason === 'AlreadyExists') return null
    throw error
  }
}

export function lost(name: string, message: string): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.Lost', message, details: { name } })
}

/** @param code `Sandbox.Lost` for the pod of an earlier attempt */
export function deviating(
  code: 'Sandbox.Lost' | 'Sandbox.Unsafe',
  name: string,
  deviations: readonly string[],
): LonghaulError {
  return new LonghaulError({
    code,
    message: 'The cluster created a pod that deviates from its specification; it was deleted before an agent ran in it',
    details: { name, deviations: deviations.join(', ') },
  })
}

/**
 * @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.PullFailed`, `Sandbox.EngineUnavailable`; `Sandbox.Lost` if it ended or was
 *  deleted before it ran
 */
export async function untilRunning(
  { cluster, log }: PodContext,
  created: Pod,
  image: string,
  signal: AbortSignal,
): Promise<Pod> {
  const { name, uid } = created.metadata
  const beganMs = performance.now()
  let pod: Pod | null = created
  let isWaiting = false
  for (let look = 0; ; look += 1) {
    if (pod === null || pod.metadata.uid !== uid) throw lost(name, 'The pod was deleted before it ran')
    if (isRunning(pod)) return pod
    if (isTakenAway(pod) || pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded')
      throw endOf(pod, { name, cause: null, askedMs: null })
    const passedMs = performance.now() - beganMs
    const block = blockOf(pod, image)
    if (block?.kind === 'failed') throw block.error
    if (block !== null && passedMs > ROOM_MS) throw block.error
    if (block !== null && !isWaiting) log('sandbox pod: waits for room', { pod: name, why: block.error.message })
    isWaiting = block !== null
    if (passedMs > START_MS) throw lost(name, `The pod did not start within ${START_MS / 60_000} minutes`)
    await sleep(Math.min(1000, 50 + 25 * look), undefined, { signal }).catch(() => signal.throwIfAborted())
    pod = await readPod(cluster, name, signal)
  }
}

/** @throws LonghaulError `Sandbox.ImageMismatch`. Images without a registry digest are not compared. */
export function requireDigest(
  pod: Pod,
  { image, expectedDigest }: Pick<OpenSandboxInput, 'image' | 'expectedDigest'>,
): string {
  const id = statusOfSandbox(pod)?.imageID ?? ''
  const digest = /sha256:[0-9a-f]{64}/.exec(id)?.[0] ?? id
  if (!id.includes('@')) return digest
  for (const wanted of [image.split('@')[1], expectedDigest]) {
    if (wanted === undefined || wanted === digest) continue
    throw new LonghaulError({
      code: 'Sandbox.ImageMismatch',
      message: 'Expected the image that the task was gated with',
      details: { image, wanted, found: digest },
    })
  }
  return digest
}
