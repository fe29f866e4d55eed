import { setTimeout as sleep } from 'node:timers/promises'
import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import type { KubernetesLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { TOOL_DEADLINE_MS } from '../job/run-tool.ts'
import {
  type PodQuestion,
  askKubectl,
  howPodsEnded,
  isNotFound,
  kubectlRefusal,
  runKubectl,
  whatDelays,
} from './kubernetes-pods.ts'
import {
  directoryLabel,
  jobNetworkPolicy,
  kubernetesManifest,
  kubernetesName,
  networkPolicyName,
} from './kubernetes-manifests.ts'
import type { Attempt, AttemptState, Launcher } from './launcher.types.ts'

export interface KubernetesLauncherInput {
  options: KubernetesLauncherRecipe
}

/** The fields that are read of the status of a Job or JobSet. */
interface Found {
  metadata?: { uid?: string; labels?: Record<string, string>; deletionTimestamp?: string }
  status?: {
    /** Number of the Job's pods that have started. */
    ready?: number
    replicatedJobsStatus?: { ready?: number }[]
    conditions?: { type?: string; status?: string; reason?: string; message?: string }[]
  }
}

/** Conditions with which a Job or a JobSet reports its end. */
const ENDED = new Set(['Complete', 'Completed', 'Failed'])

/** Runs a Job, or a JobSet for several nodes, through `kubectl` with the worker's own credentials. */
export function createKubernetesLauncher({ options }: KubernetesLauncherInput): Launcher {
  return {
    isElsewhere: true,
    pollMs: 10_000,
    settleMs: 15_000,
    // Five commands: look, remove a dead attempt and verify that it is gone, create policy and Job.
    launchMs: 5 * TOOL_DEADLINE_MS + GONE_MS + 15_000,
    async launch(attempt) {
      await refusedIfItFails(async () => {
        await freeTheName(options, attempt)
        await closeNetwork(options, attempt)
      })
      await askKubectl({
        purpose: `create ${resourceOf(attempt)} in the namespace ${options.namespace}`,
        args: ['create', '-f', '-'],
        input: JSON.stringify(kubernetesManifest({ options, attempt })),
      })
    },
    async look(attempt) {
      const found = await find(options, attempt)
      if (found === null || isOfAnotherStore(found, options, attempt))
        return { kind: 'absent', how: 'unknown to Kubernetes' }
      const state = stateOf(found, attempt)
      if (fenceOf(found) !== attempt.fence) return state
      const question = { options, attempt, uid: found.metadata?.uid ?? '' }
      return state.kind === 'alive' ? withDelay(state, found, question) : withLastWords(state, question)
    },
    async stop(attempt, graceMs) {
      const found = await find(options, attempt)
      // The name may belong to another attempt by now: a launcher that was suspended must not end the trainer that replaced its own.
      if (found !== null && isOfAnotherStore(found, options, attempt)) return true
      if (found !== null && fenceOf(found) !== attempt.fence) return true
      if (found !== null && !(await remove({ options, attempt, found, graceMs }))) return false
      await openNetwork(options, attempt)
      return true
    },
  }
}

/** An object with a lower fence belongs to an earlier attempt that holds the name; one with a higher fence has replaced this attempt. */
function stateOf(found: Found, { fence }: Attempt): AttemptState {
  if (fenceOf(found) > fence) return { kind: 'over', code: null, how: 'replaced in Kubernetes' }
  if (fenceOf(found) < fence) return { kind: 'absent', how: 'unknown to Kubernetes' }
  const end = endOf(found)
  // The pod's exit code is not read, because exit.json takes precedence and torchrun turns every failure into 1.
  return end === null
    ? { kind: 'alive' }
    : { kind: 'over', code: null, how: `${end.type} for Kubernetes (${end.reason ?? ''} ${end.message ?? ''})` }
}

async function withDelay(state: AttemptState, found: Found, question: PodQuestion): Promise<AttemptState> {
  const { ready = 0, replicatedJobsStatus = [] } = found.status ?? {}
  if (ready > 0 || replicatedJobsStatus.some((status) => (status.ready ?? 0) > 0)) return state
  if (found.metadata?.deletionTimestamp !== undefined) return state
  const delay = await whatDelays(question)
  if (delay === null) return state
  return delay.isQueue ? { kind: 'alive', queuedBy: delay.why } : { kind: 'alive', blockedBy: delay.why }
}

async function withLastWords(state: AttemptState, question: PodQuestion): Promise<AttemptState> {
  if (state.kind !== 'over') return state
  const ended = await howPodsEnded(question)
  return ended === '' ? state : { ...state, how: `${state.how}; its pod: ${ended}` }
}

/** Objects that an earlier version created do not say. */
function isOfAnotherStore(found: Found, options: KubernetesLauncherRecipe, { job }: Attempt): boolean {
  const directory = found.metadata?.labels?.['longhaul/directory']
  return directory !== undefined && directory !== directoryLabel(options, job)
}

function fenceOf(found: Found): number {
  return Number(found.metadata?.labels?.['longhaul/fence'])
}

function endOf(found: Found) {
  return found.status?.conditions?.find(({ type, status }) => ENDED.has(type ?? '') && status === 'True') ?? null
}

async function find(options: KubernetesLauncherRecipe, attempt: Attempt): Promise<Found | null> {
  const args = ['get', resourceOf(attempt), '--namespace', options.namespace, '--output', 'json']
  const { code, stdout, stderr } = await runKubectl({ args })
  if (code === 0) return JSON.parse(stdout) as Found
  if (isNotFound(stderr)) return null
  throw kubectlRefusal(`look for ${resourceOf(attempt)} in the namespace ${options.namespace}`, stderr)
}

/** Runs the steps before the attempt itself. If one of them fails, the attempt was certainly not launched, whatever the failure. */
async function refusedIfItFails(steps: () => Promise<void>): Promise<void> {
  try {
    await steps()
  } catch (error) {
    if (isLonghaulError(error)) error.details['refused'] = true
    throw error
  }
}

/** Deletes a dead attempt that holds the name. Refuses if a running or newer attempt holds it. */
async function freeTheName(options: KubernetesLauncherRecipe, attempt: Attempt): Promise<void> {
  const found = await find(options, attempt)
  if (found === null) return
  if (isOfAnotherStore(found, options, attempt)) {
    if (endOf(found) === null) throw takenByAnotherStore(options, attempt)
  } else if (fenceOf(found) > attempt.fence || endOf(found) === null) {
    throw new LonghaulError({
      code: 'Trainer.Unavailable',
      message: `Expected no other attempt under the name ${kubernetesName(attempt)}, but attempt ${fenceOf(found)} has it`,
      details: { fence: attempt.fence },
    })
  }
  // The deletion waits for the attempt's pods.
  if (await remove({ options, attempt, found, graceMs: 0 })) return
  throw new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected the ended attempt ${fenceOf(found)} to release the name ${kubernetesName(attempt)}: Kubernetes has not deleted it within ${GONE_MS / 1000} s`,
    details: { fence: attempt.fence },
  })
}

function takenByAnotherStore({ namespace }: KubernetesLauncherRecipe, attempt: Attempt): LonghaulError {
  return new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected the name ${kubernetesName(attempt)} to be free in the namespace ${namespace}, but the equal job of another artifact store has it → wait for its end, or give each store a namespace of its own in trainer.kubernetes.namespace`,
    details: { fence: attempt.fence },
  })
}

/** Creates the network policy before any pod runs. All attempts of a job use the same one, so an existing policy is correct. */
async function closeNetwork(options: KubernetesLauncherRecipe, attempt: Attempt): Promise<void> {
  const input = JSON.stringify(jobNetworkPolicy({ options, attempt }))
  const { code, stderr } = await runKubectl({ args: ['create', '-f', '-'], input })
  if (code === 0 || /\(AlreadyExists\)/.test(stderr)) return
  const purpose = `close the network of a training job by a NetworkPolicy in the namespace ${options.namespace}`
  throw kubectlRefusal(purpose, stderr)
}

/** Deletes the network policy after the last pod. The policy of a job that ended on its own stays with its Job and is deleted by the
 *  label longhaul/job. */
async function openNetwork(options: KubernetesLauncherRecipe, attempt: Attempt): Promise<void> {
  const policy = `networkpolicy.networking.k8s.io/${networkPolicyName(attempt)}`
  await runKubectl({
    args: ['delete', policy, '--namespace', options.namespace, '--ignore-not-found', '--wait=false'],
  })
}

/** From the end of the grace period until Kubernetes has removed a pod. */
const GONE_MS = 60_000
const GONE_POLL_MS = 1_000

interface RemoveInput {
  options: KubernetesLauncherRecipe
  attempt: Attempt
  /** The object that holds the attempt's name. */
  found: Found
  graceMs: number
}

/**
 * Deletes in the foreground, so that the object exists until its pods are gone, and polls for the object. kubectl's own wait requires
 * the right to list and watch, is silent without it, and would have to fit into a tool's deadline. Returns true once the object is
 * gone.
 */
async function remove({ options, attempt, found, graceMs }: RemoveInput): Promise<boolean> {
  await askKubectl({
    purpose: `delete ${resourceOf(attempt)} in the namespace ${options.namespace}`,
    args: [
      'delete',
      resourceOf(attempt),
      '--namespace',
      options.namespace,
      '--cascade=foreground',
      '--ignore-not-found',
      '--wait=false',
    ],
  })
  for (const until = Date.now() + graceMs + GONE_MS; ; await sleep(GONE_POLL_MS)) {
    // The last query starts after the deadline, because a slow answer describes an earlier moment.
    const isLast = Date.now() > until
    const named = await find(options, attempt)
    if (named === null || named.metadata?.uid !== found.metadata?.uid) return true
    if (isLast) return false
  }
}

function resourceOf(attempt: Attempt): string {
  return `${attempt.job.layout.nodes === 1 ? 'job.batch' : 'jobset.jobset.x-k8s.io'}/${kubernetesName(attempt)}`
}
