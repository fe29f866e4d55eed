import { isDeepStrictEqual } from 'node:util'
import type { OpenSandboxInput } from '../../contracts/sandbox.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { AGENT_CAPABILITIES, type ContainerLabels, labelsOf } from '../docker/container/container-spec.ts'
import { LABELS } from '../docker/container/labels.ts'
import { leaseArguments } from '../docker/sandbox/open-sandbox.ts'
import { RUNNER_FOLDER, runnerCommand } from '../docker/sandbox/runner-wire.ts'

/** The fields of a pod that are written or read here. */
export interface Pod {
  apiVersion: 'v1'
  kind: 'Pod'
  metadata: {
    name: string
    uid?: string
    labels?: Record<string, string>
    annotations?: Record<string, string>
    deletionTimestamp?: string
  }
  spec: PodSpec
  status?: PodStatus
}

interface PodSpec {
  containers: PodContainer[]
  initContainers?: object[]
  volumes?: object[]
  [field: string]: unknown
}

interface PodContainer {
  name: string
  image: string
  [field: string]: unknown
}

export interface PodStatus {
  phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown'
  reason?: string
  message?: string
  conditions?: { type?: string; status?: string; reason?: string; message?: string }[]
  containerStatuses?: ContainerStatus[]
}

export interface ContainerStatus {
  containerID?: string
  imageID?: string
  state?: {
    waiting?: { reason?: string; message?: string }
    running?: { startedAt?: string }
    terminated?: { exitCode?: number; reason?: string; message?: string; finishedAt?: string }
  }
}

/** A node that has been silent for this long has lost its pods. The cluster's own default is five minutes. */
const NODE_LOSS_S = 30

interface PodSpecInput {
  input: Pick<OpenSandboxInput, 'image' | 'limits' | 'request'>
  name: string
  /** What the runner serves. */
  serves: 'pod' | 'grader'
  /** After which silence of all workers the runner ends the pod. */
  leaseMs: number
  /** ConfigMap with the runner, see `ensureRunnerMap`. */
  runnerMap: string
  /** Path of the profile on the nodes, relative to the kubelet's folder of profiles. */
  seccompProfile: string
  runtime: string | null
  labels: ContainerLabels
}

/** The full specification of a sandbox as a pod: no network for its processes, no service account, and only the runner's volume. */
export function podSpec({
  input,
  name,
  serves,
  leaseMs,
  runnerMap,
  seccompProfile,
  runtime,
  labels,
}: PodSpecInput): Pod {
  const { limits, request = { cpus: limits.cpus, memoryMiB: limits.memoryMiB } } = input
  const facts = labelsOf(labels)
  const runtimeClassName = limits.runtime ?? runtime
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      // All facts are annotations, because ids are not valid label values. Facts that queries select by are labels too.
      labels: {
        [LABELS.project]: facts[LABELS.project] ?? '',
        [LABELS.role]: labels.role,
        ...(labels.namespaceId === '' ? {} : { [LABELS.namespaceId]: labels.namespaceId }),
      },
      annotations: facts,
    },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      hostNetwork: false,
      hostPID: false,
      hostIPC: false,
      shareProcessNamespace: false,
      hostname: 'sandbox',
      dnsPolicy: 'None',
      dnsConfig: { nameservers: ['127.0.0.1'] },
      terminationGracePeriodSeconds: 1,
      // Makes the kubelet end the pod even if no worker is left.
      activeDeadlineSeconds: Math.ceil(labels.maxLifeMs / 1000),
      tolerations: ['not-ready', 'unreachable'].map((taint) => ({
        key: `node.kubernetes.io/${taint}`,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: NODE_LOSS_S,
      })),
      ...(runtimeClassName === null ? {} : { runtimeClassName }),
      // The profile is set on the container. If it is missing on a node, the pod itself must start so that the kubelet can report it.
      securityContext: {},
      volumes: [{ name: 'runner', configMap: { name: runnerMap, defaultMode: 0o555 } }],
      containers: [
        {
          name: 'sandbox',
          image: input.image,
          imagePullPolicy: 'IfNotPresent',
          command: [...runnerCommand(...leaseArguments(leaseMs)), serves],
          // An exec also starts in this directory, and the agent may have removed its repository. The runner is told where the
          // repository is.
          workingDir: '/',
          resources: {
            requests: quantities({ ...limits, ...atMost(request, limits) }),
            limits: quantities(limits),
          },
          securityContext: {
            runAsUser: 0,
            runAsGroup: 0,
            privileged: false,
            allowPrivilegeEscalation: false,
            capabilities: { drop: ['ALL'], add: AGENT_CAPABILITIES },
            seccompProfile: { type: 'Localhost', localhostProfile: seccompProfile },
          },
          volumeMounts: [{ name: 'runner', mountPath: RUNNER_FOLDER, readOnly: true }],
        },
      ],
    },
  }
}

/** The server refuses a request above its limit. */
function atMost<T extends { cpus: number; memoryMiB: number }>(request: T, limits: T): T {
  return {
    ...request,
    cpus: Math.min(request.cpus, limits.cpus),
    memoryMiB: Math.min(request.memoryMiB, limits.memoryMiB),
  }
}

/** Uses the spelling that servers return, because another spelling would look like a deviation. */
function quantities({ cpus, memoryMiB, diskGiB }: { cpus: number; memoryMiB: number; diskGiB?: number }) {
  const milli = Math.round(cpus * 1000)
  return {
    cpu: milli % 1000 === 0 ? String(milli / 1000) : `${milli}m`,
    memory: mebibytes(memoryMiB),
    ...(diskGiB === undefined ? {} : { 'ephemeral-storage': mebibytes(diskGiB * 1024) }),
  }
}

/** Formats a whole number in the largest unit that divides it. */
function mebibytes(amount: number): string {
  const units = ['Mi', 'Gi', 'Ti']
  let [left, unit] = [Math.max(1, Math.round(amount)), 0]
  while (left % 1024 === 0 && unit < units.length - 1) [left, unit] = [left / 1024, unit + 1]
  return `${left}${units[unit]}`
}

const MAX_PLAIN = 40

/** Returns a lower-case name, because pod names become host names. The hash distinguishes ids that would be spelled the same. */
export function podName(parts: readonly (string | number)[]): string {
  const plain = ['lh', ...parts].join('-')
  const safe = plain.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
  return `${safe.slice(0, MAX_PLAIN).replace(/-$/, '')}-${sha256Hex(plain).slice(0, 12)}`
}

/** Fields that only the cluster adds. They do not affect which program runs, its user or its resources. */
const ADDED_TO_CONTAINER = new Set(['terminationMessagePath', 'terminationMessagePolicy'])

/** Returns the fields in which a created pod deviates from the request, because an admission webhook may add containers, volumes and
 *  capabilities. */
export function podDeviations(asked: Pod, found: Pod): string[] {
  const deviations: string[] = []
  for (const field of ['initContainers', 'ephemeralContainers'] as const) {
    if (((found.spec[field] as object[] | undefined) ?? []).length > 0) deviations.push(field)
  }
  if (found.spec.containers.length !== 1) deviations.push('containers')
  const { containers: _, dnsConfig: __, tolerations: ___, activeDeadlineSeconds: ____, ...rest } = asked.spec
  for (const [field, value] of Object.entries(rest)) {
    // A server omits fields that are false.
    if (!isDeepStrictEqual(found.spec[field] ?? false, value)) deviations.push(field)
  }
  const [wanted, is] = [asked.spec.containers[0], found.spec.containers[0]]
  for (const field of new Set([...Object.keys(wanted ?? {}), ...Object.keys(is ?? {})])) {
    if (ADDED_TO_CONTAINER.has(field) || isDeepStrictEqual(wanted?.[field], is?.[field])) continue
    deviations.push(`containers[0].${field}`)
  }
  return deviations
}
