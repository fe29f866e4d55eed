import type { SandboxHost } from '../../contracts/sandbox.types.ts'
import { createSlots } from '../../platform/limiter.ts'
import { auditPatch } from '../docker/grader/audit-patch.ts'
import { gradePatch } from '../docker/grader/grade-patch.ts'
import type { Grader } from '../docker/grader/grading.ts'
import { createRelayPool, type RelayPoolOptions } from '../docker/sandbox/relay/relay-pool.ts'
import { createRunnerOperations, createRunnerPool } from '../docker/sandbox/runner-pool.ts'
import { toClusterError } from './cluster-errors.ts'
import type { Cluster } from './cluster.ts'
import { answerOfPod } from './grading-pod.ts'
import { deletePod } from './list-pods.ts'
import { openPod } from './open-pod.ts'
import { createPodAccess } from './pod-access.ts'
import type { PodContext } from './start-pod.ts'

/** Path of `infra/kubernetes/runner-seccomp.json` on the nodes, relative to the kubelet's folder of profiles. */
export const SECCOMP_PROFILE = 'longhaul/runner.json'

interface PodSandboxHostOptions {
  cluster: Cluster
  /** Identifies the namespace, because every worker that reaches it serves the same sandboxes. */
  hostId: string
  hostQueue: string
  /** Identity of the Temporal namespace of the owners. @default '' */
  namespaceId?: string
  /** Maximum number of pods that start concurrently. @default 32 */
  maxStarting?: number
  /** The reaper removes a pod older than this, even while its owner runs. @default 6 hours */
  maxLifeMs?: number
  /** RuntimeClass of pods whose recipe names none. @default the cluster's default */
  runtime?: string | null
  /** @default SECCOMP_PROFILE */
  seccompProfile?: string
  /** Maximum number of pods that grade concurrently. @default 16 */
  maxGrading?: number
  /** Grades elsewhere. @default in pods of this namespace */
  graders?: Pick<SandboxHost, 'grade' | 'audit'> | null
  log?: RelayPoolOptions['log']
  /** How the proxies of sandboxes resolve names and connect. */
  network?: Omit<RelayPoolOptions, 'exec' | 'log'>
}

export interface PodSandboxHost extends SandboxHost {
  readonly context: PodContext
  dispose(): void
}

/** Runs agents' sandboxes, and graders, as pods of one namespace, with the same runner, journal and wire format as containers. */
export function createPodSandboxHost({
  cluster,
  hostId,
  hostQueue,
  namespaceId = '',
  maxStarting = 32,
  maxLifeMs = 6 * 3_600_000,
  runtime = null,
  seccompProfile = SECCOMP_PROFILE,
  maxGrading = 16,
  graders = null,
  log = () => undefined,
  network = {},
}: PodSandboxHostOptions): PodSandboxHost {
  const runners = createRunnerPool(createPodAccess({ cluster }))
  const relays = createRelayPool({ exec: (name, command) => cluster.exec(name, command), log, ...network })
  const context: PodContext = {
    cluster,
    hostId,
    hostQueue,
    namespaceId,
    starting: createSlots(maxStarting),
    grading: createSlots(maxGrading),
    runners,
    relays,
    runtime,
    seccompProfile,
    maxLifeMs,
    log,
  }
  const named = async <T>(
    doing: string,
    name: string,
    signal: AbortSignal | null,
    work: () => Promise<T>,
  ): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      if (signal?.aborted === true && error === signal.reason) throw error
      throw toClusterError(error, { doing, details: { name } })
    }
  }
  const grader: Grader = (grading, signal) => answerOfPod(context, grading, signal)
  return {
    context,
    ...createRunnerOperations({ runners, relays, log, around: named }),
    open: (input, signal) => named('opening a sandbox', input.episode, signal, () => openPod(context, input, signal)),
    close: ({ name }) =>
      named('closing a sandbox', name, null, async () => {
        runners.disconnect(name)
        relays.disconnect(name)
        await deletePod(cluster, name)
      }),
    grade: (input, signal) =>
      graders?.grade(input, signal) ?? named('grading', input.episode, signal, () => gradePatch(grader, input, signal)),
    audit: (input, signal) =>
      graders?.audit(input, signal) ??
      named('auditing', input.episode, signal, () => auditPatch(grader, input, signal)),
    dispose() {
      runners.dispose()
      relays.dispose()
      cluster.dispose()
    },
  }
}
