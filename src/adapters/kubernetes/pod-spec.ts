import { isDeepStrictEqual } from 'node:util'
import type { OpenSandboxInput } from '../../contracts/sandbox.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { AGENT_CAPABILITIES, type ContainerLabels, labelsOf } from '../docker/container/container-spec.ts'
import { LABELS } from '../docker/container/labels.ts'
import { leaseArguments } from '../docker/sandbox/open-sandbox.ts'
import { RUNNER_FOLDER, runnerCommand } from '../docker/sandbox/runner-wire.ts'

/** As far as pods are written and read here. */
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

/** A node that is not heard of for this long has lost its pods; the cluster's own default is five minutes. */
const NODE_LOSS_S = 30

interface PodSpecInput {
  input: OpenSandboxInput
  name: string
  /** ConfigMap with the runner, see `ensureRunnerMap`. */
  runnerMap: string
  /** Where nodes keep the profile, below the kubelet's folder of profiles. */
  seccompProfile: string
  runtime: string | null
  labels: ContainerLabels
}

/** The full specification of a sandbox as a pod: no network for what runs in it, no account of the cluster, no volume but the runner's. */
export function podSpec({ input, name, runnerMap, seccompProfile, runtime, labels }: PodSpecInput): Pod {
  const { limits, request = { cpus: limits.cpus, memoryMiB: limits.memoryMiB } } = input
  const facts = labelsOf(labels)
  const runtimeClassName = limits.runtime ?? runtime
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      // A label's value may be no id of ours: those are annotations, and what is asked for by them is here too.
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
      // The kubelet ends it also where no worker is left.
      activeDeadlineSeconds: Math.ceil(labels.maxLifeMs / 1000),
      tolerations: ['not-ready', 'unreachable'].map((taint) => ({
        key: `node.kubernetes.io/${taint}`,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: NODE_LOSS_S,
      })),
      ...(runtimeClassName === null ? {} : { runtimeClassName }),
      // The profile is the container's: where a node lacks it, the pod's own process must start, for the kubelet to say so.
      securityContext: {},
      volumes: [{ name: 'runner', configMap: { name: runnerMap, defaultMode: 0o555 } }],
      containers: [
        {
          name: 'sandbox',
          image: input.image,
          imagePullPolicy: 'IfNotPresent',
          command: [...runnerCommand(...leaseArguments(input.leaseMs)), 'pod'],
          // An exec begins there too, and the agent may have removed its repository; the runner is told where that is.
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

/** A request above its limit is refused. */
function atMost<T extends { cpus: number; memoryMiB: number }>(request: T, limits: T): T {
  return {
    ...request,
    cpus: Math.min(request.cpus, limits.cpus),
    memoryMiB: Math.min(request.memoryMiB, limits.memoryMiB),
  }
}

/** In the spelling that servers give back: another one would look like a pod that was changed. */
function quantities({ cpus, memoryMiB, diskGiB }: { cpus: number; memoryMiB: number; diskGiB?: number }) {
  const milli = Math.round(cpus * 1000)
  return {
    cpu: milli % 1000 === 0 ? String(milli / 1000) : `${milli}m`,
    memory: mebibytes(memoryMiB),
    ...(diskGiB === undefined ? {} : { 'ephemeral-storage': mebibytes(diskGiB * 1024) }),
  }
}

/** Whole ones, in the largest unit that they are a multiple of. */
function mebibytes(amount: number): string {
  const units = ['Mi', 'Gi', 'Ti']
  let [left, unit] = [Math.max(1, Math.round(amount)), 0]
  while (left % 1024 === 0 && unit < units.length - 1) [left, unit] = [left / 1024, unit + 1]
  return `${left}${units[unit]}`
}

const MAX_PLAIN = 40

/** Names of pods are lower-case and become host names; the hash keeps two ids apart that are spelled alike. */
export function podName(parts: readonly (string | number)[]): string {
  const plain = ['lh', ...parts].join('-')
  const safe = plain.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
  return `${safe.slice(0, MAX_PLAIN).replace(/-$/, '')}-${sha256Hex(plain).slice(0, 12)}`
}

/** What only the cluster can add: it has no say in what runs, as whom, and with what. */
const ADDED_TO_CONTAINER = new Set(['terminationMessagePath', 'terminationMessagePolicy'])

/** In which fields a created pod is not what was asked for: an admission webhook may add containers, volumes and capabilities. */
export function podDeviations(asked: Pod, found: Pod): string[] {
  const deviations: string[] = []
  for (const field of ['initContainers', 'ephemeralContainers'] as const) {
    if (((found.spec[field] as object[] | undefined) ?? []).length > 0) deviations.push(field)
  }
  if (found.spec.containers.length !== 1) deviations.push('containers')
  const { containers: _, dnsConfig: __, tolerations: ___, activeDeadlineSeconds: ____, ...rest } = asked.spec
  for (const [field, value] of Object.entries(rest)) {
    // A server leaves out what is false.
    if (!isDeepStrictEqual(found.spec[field] ?? false, value)) deviations.push(field)
  }
  const [wanted, is] = [asked.spec.containers[0], found.spec.containers[0]]
  for (const field of new Set([...Object.keys(wanted ?? {}), ...Object.keys(is ?? {})])) {
    if (ADDED_TO_CONTAINER.has(field) || isDeepStrictEqual(wanted?.[field], is?.[field])) continue
    deviations.push(`containers[0].${field}`)
  }
  return deviations
}
