/**
 * Reports why the pods of a training job do not start and how they ended. The reports are shown to operators and only decide that
 * further waiting is useless. An account that may not read pods or events gets no report.
 */
import type { KubernetesLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { remedyFor } from '../../kubernetes/remedies.ts'
import type { Attempt } from './launcher.types.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import { type ToolResult, isUncertain, runTool } from '../job/run-tool.ts'

interface ContainerState {
  waiting?: { reason?: string; message?: string }
  terminated?: { exitCode?: number; reason?: string; message?: string }
}

interface Pod {
  metadata?: { name?: string }
  status?: {
    phase?: string
    reason?: string
    message?: string
    conditions?: { type?: string; status?: string; reason?: string; message?: string }[]
    containerStatuses?: { state?: ContainerState }[]
  }
}

interface Event {
  message?: string
  involvedObject?: { uid?: string }
  lastTimestamp?: string
}

export interface PodQuestion {
  options: KubernetesLauncherRecipe
  attempt: Attempt
  /** Uid of the Job or JobSet, because an earlier one of the same name has left its events. */
  uid: string
}

/** Why no pod of an attempt has started. */
export interface PodDelay {
  /** The cluster's words, with a remedy behind an arrow where one is known. */
  why: string
  /** True if the end of other pods, or a new node, ends the wait; false if somebody must change something. */
  isQueue: boolean
}

/** Returns null while a pod runs, or if the cluster says nothing. */
export async function whatDelays(question: PodQuestion): Promise<PodDelay | null> {
  const delay = await delayOfPods(question)
  return delay === null ? null : { ...delay, why: `${delay.why}${remedyFor(delay.why, 'trainer')}` }
}

async function delayOfPods(question: PodQuestion): Promise<PodDelay | null> {
  const pods = await podsOf(question)
  if (pods === null) return null
  if (pods.length === 0) return refusalOfPods(question)
  let unscheduled: string | null = null
  for (const { status } of pods) {
    for (const { state } of status?.containerStatuses ?? []) {
      const { reason = '', message = '' } = state?.waiting ?? {}
      if (BLOCKING.has(reason)) return { why: `${reason}: ${message}`, isQueue: false }
    }
    const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
    if (scheduled?.status === 'True' || scheduled?.message === undefined) continue
    // Nodes become free on their own. A missing claim must be created by an operator.
    if (/persistentvolumeclaim .* not found/.test(scheduled.message)) return { why: scheduled.message, isQueue: false }
    unscheduled ??= scheduled.message
  }
  return unscheduled === null ? null : { why: unscheduled, isQueue: true }
}

/** Returns, as `exit 137, OOMKilled`, the exit and the last log lines of the first pod that failed; empty if no pod is left. */
export async function howPodsEnded(question: PodQuestion): Promise<string> {
  for (const { status } of (await podsOf(question)) ?? []) {
    for (const { state } of status?.containerStatuses ?? []) {
      const { exitCode = 0, reason = '', message = '' } = state?.terminated ?? {}
      if (exitCode !== 0)
        return `exit ${exitCode}, ${reason}: ${message.trim().slice(-LAST_WORDS)}${MEMORY[reason] ?? ''}`
    }
    if (status?.phase === 'Failed') return `${status.reason ?? ''}: ${status.message ?? ''}`
  }
  return ''
}

const LAST_WORDS = 1_000

const MEMORY: Readonly<Record<string, string>> = {
  OOMKilled: ' → raise trainer.kubernetes.memoryGiB, or lower trainer.maxTokensPerMicro',
}

/** These states may end, for example when a registry recovers, and the pod then starts. None of them is a place in a queue. */
const BLOCKING = new Set([
  'CreateContainerConfigError',
  'CreateContainerError',
  'ErrImageNeverPull',
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'RunContainerError',
])

async function podsOf({ options, attempt }: PodQuestion): Promise<Pod[] | null> {
  const labels = `longhaul/job=${attempt.job.jobId},longhaul/fence=${attempt.fence}`
  return list<Pod>(options, ['pods', '--selector', labels])
}

/** A Job creates its pods itself and reports a refusal by the cluster in an event. */
async function refusalOfPods({ options, uid }: PodQuestion): Promise<PodDelay | null> {
  const events = await list<Event>(options, [
    'events',
    '--field-selector',
    `reason=FailedCreate,involvedObject.uid=${uid}`,
  ])
  const newest = events?.toSorted((a, b) => (a.lastTimestamp ?? '').localeCompare(b.lastTimestamp ?? '')).at(-1)
  const message = newest?.message
  if (message === undefined) return null
  // Other jobs release the quota that they use, so this is a queue.
  return { why: message, isQueue: message.includes('exceeded quota') && mayFitLater(message) }
}

/** @returns null if the account lacks the permission or kubectl fails */
async function list<T>({ namespace }: KubernetesLauncherRecipe, what: string[]): Promise<T[] | null> {
  const args = ['get', ...what, '--namespace', namespace, '--output', 'json']
  const answer = await runKubectl({ args }).catch(() => null)
  return answer?.code === 0 ? (JSON.parse(answer.stdout) as { items: T[] }).items : null
}

/** Returns, for `exceeded quota: q, requested: cpu=4, used: cpu=1, limited: cpu=2`, whether the whole quota would suffice. */
export function mayFitLater(message: string): boolean {
  const amounts = (word: string): Map<string, number> => {
    const text = new RegExp(`${word}: (\\S+?)(?:, |$)`).exec(message)?.[1] ?? ''
    return new Map(text.split(',').map((pair) => [pair.split('=')[0] ?? '', quantity(pair.split('=')[1] ?? '')]))
  }
  const limited = amounts('limited')
  return [...amounts('requested')].every(([name, amount]) => amount <= (limited.get(name) ?? Number.POSITIVE_INFINITY))
}

const SUFFIXES = ['', 'k', 'M', 'G', 'T', 'P', 'E']

/** Parses a Kubernetes quantity: `500m`, `16Gi`, `2k`. */
function quantity(text: string): number {
  const [, digits = '', suffix = ''] = /^([\d.]+)(.*)$/.exec(text) ?? []
  if (suffix === 'm') return Number(digits) / 1000
  const power = SUFFIXES.indexOf(suffix.replace('i', '').replace('K', 'k'))
  return Number(digits) * (suffix.endsWith('i') ? 1024 : 1000) ** Math.max(0, power)
}

// Requests to a cluster through `kubectl` with the worker's own credentials, and advice for its refusals.

export interface KubectlInput {
  /** Names the request in errors: `create Job x in namespace y`. */
  purpose: string
  args: string[]
  input?: string
}

/** Runs kubectl to its end. The caller judges a non-zero exit code. @throws LonghaulError `Trainer.Unavailable` if kubectl cannot be
 *  run */
export function runKubectl({ args, input }: Omit<KubectlInput, 'purpose'>): Promise<ToolResult> {
  return runTool('kubectl', args, { input })
}

/** @throws LonghaulError `Trainer.Unavailable` for every non-zero exit code, with `refused` if the request certainly had no effect */
export async function askKubectl(input: KubectlInput): Promise<string> {
  const { code, stdout, stderr } = await runKubectl(input)
  if (code === 0) return stdout
  throw kubectlRefusal(input.purpose, stderr)
}

export function kubectlRefusal(purpose: string, stderr: string): LonghaulError {
  const said = stderr.trim().slice(-800)
  return new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected to ${purpose}: ${said}${remedyFor(said, 'trainer')}`,
    details: { tool: 'kubectl', refused: !isUncertain(said) },
  })
}

export function isNotFound(stderr: string): boolean {
  return /\(NotFound\)/.test(stderr)
}
