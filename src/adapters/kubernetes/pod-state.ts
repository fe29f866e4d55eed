import { LonghaulError } from '../../contracts/errors.ts'
import { NO_ISOLATION, sandboxError } from '../docker/sandbox/runner-pool.ts'
import type { ContainerStatus, Pod } from './pod-spec.ts'

/** Clocks of nodes and workers differ. */
const CLOCK_SLACK_MS = 2_000

export function statusOfSandbox({ status }: Pod): ContainerStatus | undefined {
  return status?.containerStatuses?.[0]
}

export function isRunning(pod: Pod): boolean {
  return pod.status?.phase === 'Running' && statusOfSandbox(pod)?.state?.running !== undefined && !isTakenAway(pod)
}

/** Deleted, evicted, preempted, drained, or on a node that is not heard of: none of it is the agent's doing. */
export function isTakenAway({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined || hasCondition(status?.conditions, 'DisruptionTarget', 'True')
}

/** Whether the cluster has not heard of the pod's node for a while: it marks all pods there, which may still run. */
export function isNodeLost(pod: Pod): boolean {
  const hasStarted = statusOfSandbox(pod)?.state?.running !== undefined
  return pod.status?.reason === 'NodeLost' || (hasStarted && hasCondition(pod.status?.conditions, 'Ready', 'False'))
}

function hasCondition(conditions: NonNullable<Pod['status']>['conditions'], wanted: string, status: string): boolean {
  return conditions?.some((condition) => condition.type === wanted && condition.status === status) ?? false
}

/** What a kubelet says of a pod that has filled what it may write; it evicts for nothing else that one pod does. */
const DISK_LIMIT = /ephemeral[- ](?:local )?storage.*(?:exceed|limit)|exceed.*ephemeral[- ](?:local )?storage/i
/** Of a container that a node has lost track of, as after its own restart. */
const UNKNOWN_ENDS = new Set(['ContainerStatusUnknown', 'Unknown', 'ContainerCannotRun'])
/** What runtimes report where they do not know. */
const UNKNOWN_CODE = 255

/**
 * Why a pod that does not run has ended. The agent's own doing is what ended the first process from inside, and too much written;
 * whatever the cluster has done to the pod is its own.
 * @param askedMs when a request went out that its runner has not answered; null where none was under way
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
  // By itself the first process ends with 0, when the lease runs out. Requests renew it, so a runner that still ran has kept it.
  const isInside =
    end.exitCode !== 0 || (askedMs !== null && Date.parse(end.finishedAt ?? '') > askedMs + CLOCK_SLACK_MS)
  return sandboxError(isInside ? 'Sandbox.Ended' : 'Sandbox.Lost', { name, why, cause })
}

export interface StartBlock {
  /** `waits`: for room on a node. */
  kind: 'waits' | 'failed'
  error: LonghaulError
}

/** What registries say about a name that is not there, or not for us. */
const MISSING =
  /not found|manifest unknown|does not exist|no match for platform|access denied|name unknown|InvalidImageName/i

/** What keeps a pod from starting; null where it is on its way. */
export function blockOf(pod: Pod, image: string): StartBlock | null {
  const { reason = '', message = '' } = statusOfSandbox(pod)?.state?.waiting ?? {}
  const said = `${reason}: ${message}`
  if (['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull'].includes(reason)) {
    const isMissing = MISSING.test(said)
    // The kubelet tries again; a name that is not there stays away.
    if (!isMissing && reason === 'ErrImagePull') return null
    return failed(
      isMissing ? 'Sandbox.ImageMissing' : 'Sandbox.PullFailed',
      isMissing ? 'The cluster has no such image' : 'The image could not be pulled by the node',
      { image, reason: said.slice(0, 300) },
    )
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
