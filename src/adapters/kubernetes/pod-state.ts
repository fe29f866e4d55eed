import { LonghaulError } from '../../contracts/errors.ts'
import { pullFailure } from '../docker/images/pull-failure.ts'
import { NO_ISOLATION, sandboxError } from '../docker/sandbox/runner-pool.ts'
import type { ContainerStatus, Pod } from './pod-spec.ts'

/** Limit for the start of a pod: pulled images of real tasks are gigabytes in size. */
export const START_MS = 30 * 60_000
/** Tolerated difference between the clocks of nodes and workers. */
const CLOCK_SLACK_MS = 2_000

export function statusOfSandbox({ status }: Pod): ContainerStatus | undefined {
  return status?.containerStatuses?.[0]
}

export function isRunning(pod: Pod): boolean {
  return pod.status?.phase === 'Running' && statusOfSandbox(pod)?.state?.running !== undefined && !isTakenAway(pod)
}

/** Returns whether the pod was deleted, evicted, preempted or drained, or is on a silent node. The agent causes none of these. */
export function isTakenAway({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined || hasCondition(status?.conditions, 'DisruptionTarget', 'True')
}

/** Returns whether the pod's node has been silent for a while. The cluster then marks all of its pods, which may still run. */
export function isNodeLost(pod: Pod): boolean {
  const hasStarted = statusOfSandbox(pod)?.state?.running !== undefined
  return pod.status?.reason === 'NodeLost' || (hasStarted && hasCondition(pod.status?.conditions, 'Ready', 'False'))
}

function hasCondition(conditions: NonNullable<Pod['status']>['conditions'], wanted: string, status: string): boolean {
  return conditions?.some((condition) => condition.type === wanted && condition.status === status) ?? false
}

/** The kubelet's message for a pod that exceeded its disk limit, which is the only eviction that a single pod causes. */
const DISK_LIMIT = /ephemeral[- ](?:local )?storage.*(?:exceed|limit)|exceed.*ephemeral[- ](?:local )?storage/i
/** End reasons of a container that its node has lost track of, for example after a restart of the node. */
const UNKNOWN_ENDS = new Set(['ContainerStatusUnknown', 'Unknown', 'ContainerCannotRun'])
/** The exit code that runtimes report if they do not know it. */
const UNKNOWN_CODE = 255

/**
 * Returns why a stopped pod has ended. The agent is responsible if the first process was ended from inside or if too much was written.
 * The cluster is responsible for everything that it did to the pod.
 * @param askedMs when the unanswered request was sent to the runner; null if none was under way
 */
export function endOf(pod: Pod, { name, cause, askedMs }: { name: string; cause: unknown; askedMs: number | null }) {
  const { reason = '', message = '' } = pod.status ?? {}
  const end = statusOfSandbox(pod)?.state?.terminated
  const why = `the pod has ended (${[pod.status?.phase, reason, end?.reason, end?.exitCode, message].filter((word) => word !== undefined && word !== '').join(', ')})`
  if (reason === 'Evicted' && DISK_LIMIT.test(message)) {
    return new LonghaulError({
      code: 'Sandbox.DiskLimit',
      message: `Expected a sandbox to write no more than its limit: ${message}`,
      details: { name },
      cause,
    })
  }
  if (isTakenAway(pod) || reason !== '' || end === undefined) return sandboxError('Sandbox.Lost', { name, why, cause })
  if (end.exitCode === NO_ISOLATION) return sandboxError('Sandbox.Unsafe', { name, why, cause })
  if (UNKNOWN_ENDS.has(end.reason ?? '') || end.exitCode === UNKNOWN_CODE)
    return sandboxError('Sandbox.Lost', { name, why, cause })
  // The first process exits with 0 on its own only when the lease expires. Requests renew the lease, so a runner that was still serving
  // has kept it.
  const isInside =
    end.exitCode !== 0 || (askedMs !== null && Date.parse(end.finishedAt ?? '') > askedMs + CLOCK_SLACK_MS)
  return sandboxError(isInside ? 'Sandbox.Ended' : 'Sandbox.Lost', { name, why, cause })
}

export interface StartBlock {
  /** `waits` means that the pod waits for room on a node. */
  kind: 'waits' | 'failed'
  error: LonghaulError
}

/** Returns what keeps a pod from starting; null while it is starting. */
export function blockOf(pod: Pod, image: string): StartBlock | null {
  const { reason = '', message = '' } = statusOfSandbox(pod)?.state?.waiting ?? {}
  const said = `${reason}: ${message}`
  if (['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull'].includes(reason)) {
    const error = pullFailure({ image, reason: said, by: 'node' })
    // The kubelet retries a failed pull, but a missing name stays missing.
    if (error.code !== 'Sandbox.ImageMissing' && reason === 'ErrImagePull') return null
    return { kind: 'failed', error }
  }
  if (['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'].includes(reason)) {
    const remedy = /seccomp/.test(said) ? '; install the profile on every node (docs/cluster.md)' : ''
    return failed('Sandbox.EngineUnavailable', `The node could not start the sandbox: ${said}${remedy}`, { image })
  }
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status !== 'False') return null
  return {
    kind: 'waits',
    error: new LonghaulError({
      code: 'Sandbox.EngineUnavailable',
      message: `No node of the cluster has room for the sandbox: ${scheduled.message ?? scheduled.reason ?? ''}`,
      details: {},
    }),
  }
}

function failed(code: LonghaulError['code'], message: string, details: Record<string, string>): StartBlock {
  return { kind: 'failed', error: new LonghaulError({ code, message, details }) }
}
