/**
 * What the cluster says about pods of a training job: why they do not start, how they ended. It is shown to people, and decides no more
 * than that waiting is useless; an account that may not read pods or events hears nothing.
 */
import type { KubernetesLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { remedyFor } from '../../kubernetes/remedies.ts'
import { runKubectl } from './kubectl.ts'
import type { Attempt } from './launcher.types.ts'

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
  /** Of the Job or JobSet: an earlier one of this name has left its events. */
  uid: string
}

/** Why no pod can start however long it is waited for, and what to do; null while one runs, or waits for its place. */
export async function whatBlocks(question: PodQuestion): Promise<string | null> {
  const said = await saidOfPods(question)
  return said === null ? null : `${said}${remedyFor(said, 'trainer')}`
}

async function saidOfPods(question: PodQuestion): Promise<string | null> {
  const pods = await podsOf(question)
  if (pods === null) return null
  if (pods.length === 0) return refusalOfPods(question)
  for (const { status } of pods) {
    for (const { state } of status?.containerStatuses ?? []) {
      const { reason = '', message = '' } = state?.waiting ?? {}
      if (BLOCKING.has(reason)) return `${reason}: ${message}`
    }
    const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
    // Nodes come free; a claim that does not exist comes from a person.
    if (/persistentvolumeclaim .* not found/.test(scheduled?.message ?? '')) return scheduled?.message ?? null
  }
  return null
}

/** `exit 137, OOMKilled` and the last words, of the first pod that ended badly; empty where none is left. */
export async function howPodsEnded(question: PodQuestion): Promise<string> {
  for (const { status } of (await podsOf(question)) ?? []) {
    for (const { state } of status?.containerStatuses ?? []) {
      const { exitCode = 0, reason = '', message = '' } = state?.terminated ?? {}
      if (exitCode !== 0) return `exit ${exitCode}, ${reason}: ${message.trim().slice(-LAST_WORDS)}`
    }
    if (status?.phase === 'Failed') return `${status.reason ?? ''}: ${status.message ?? ''}`
  }
  return ''
}

const LAST_WORDS = 1_000

/** They may end by themselves, when a registry comes back, and then the pod starts; none of them is a place in a queue. */
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

/** A Job makes its pods by itself, and says in an event what the cluster has against them. */
async function refusalOfPods({ options, uid }: PodQuestion): Promise<string | null> {
  const events = await list<Event>(options, [
    'events',
    '--field-selector',
    `reason=FailedCreate,involvedObject.uid=${uid}`,
  ])
  const newest = events?.toSorted((a, b) => (a.lastTimestamp ?? '').localeCompare(b.lastTimestamp ?? '')).at(-1)
  const message = newest?.message ?? null
  // What others use they give back: that is a queue.
  return message !== null && message.includes('exceeded quota') && mayFitLater(message) ? null : message
}

/** @returns null where the account may not ask, or hears nothing */
async function list<T>({ namespace }: KubernetesLauncherRecipe, what: string[]): Promise<T[] | null> {
  const args = ['get', ...what, '--namespace', namespace, '--output', 'json']
  const answer = await runKubectl({ args }).catch(() => null)
  return answer?.code === 0 ? (JSON.parse(answer.stdout) as { items: T[] }).items : null
}

/** Of `exceeded quota: q, requested: cpu=4, used: cpu=1, limited: cpu=2`: whether the whole quota would be enough. */
export function mayFitLater(message: string): boolean {
  const amounts = (word: string): Map<string, number> => {
    const text = new RegExp(`${word}: (\\S+?)(?:, |$)`).exec(message)?.[1] ?? ''
    return new Map(text.split(',').map((pair) => [pair.split('=')[0] ?? '', quantity(pair.split('=')[1] ?? '')]))
  }
  const limited = amounts('limited')
  return [...amounts('requested')].every(([name, amount]) => amount <= (limited.get(name) ?? Number.POSITIVE_INFINITY))
}

const SUFFIXES = ['', 'k', 'M', 'G', 'T', 'P', 'E']

/** A number of Kubernetes: `500m`, `16Gi`, `2k`. */
function quantity(text: string): number {
  const [, digits = '', suffix = ''] = /^([\d.]+)(.*)$/.exec(text) ?? []
  if (suffix === 'm') return Number(digits) / 1000
  const power = SUFFIXES.indexOf(suffix.replace('i', '').replace('K', 'k'))
  return Number(digits) * (suffix.endsWith('i') ? 1024 : 1000) ** Math.max(0, power)
}
