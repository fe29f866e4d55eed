import type { KubernetesLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { trainerArguments } from './launch-command.ts'
import type { Attempt } from './launcher.types.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import { traceVariables } from '../../../platform/current-trace.ts'

/** All jobs use the same port, because each job has its own network name. */
const PORT = 29_400
const NODES = 'node'
/** Compiled kernels of a job take a few hundred megabytes. */
const SCRATCH_GIB = 16

/** Name of the Job or JobSet. It is derived from the job, so that a second launch conflicts. A valid DNS label of at most 40
 *  characters. */
export function kubernetesName({ job }: Attempt): string {
  return `longhaul-${job.jobId}`
}

/** A Job for one node. Several nodes need a JobSet, which gives each pod a name that the others can reach. */
export function kubernetesManifest(input: {
  options: KubernetesLauncherRecipe
  attempt: Attempt
}): Record<string, unknown> {
  const { options, attempt } = input
  const { nodes } = attempt.job.layout
  const metadata = { name: kubernetesName(attempt), namespace: options.namespace, labels: labelsOf(input) }
  if (nodes === 1) return { apiVersion: 'batch/v1', kind: 'Job', metadata, spec: jobSpec(input, 1) }
  return {
    apiVersion: 'jobset.x-k8s.io/v1alpha2',
    kind: 'JobSet',
    metadata,
    spec: {
      // An attempt ends as a whole, and the pipeline starts the next one under a higher fence.
      failurePolicy: { maxRestarts: 0 },
      network: { enableDNSHostnames: true, publishNotReadyAddresses: true },
      replicatedJobs: [{ name: NODES, replicas: 1, template: { spec: jobSpec(input, nodes) } }],
    },
  }
}

/**
 * Restricts the network of a job's pods to each other and, with several nodes, to the cluster's DNS. Neither the store where ranks meet
 * nor the connections between ranks are authenticated. Ranks on one node use loopback, which no policy affects. All attempts of a job
 * share the policy, so it exists before the first pod.
 */
export function jobNetworkPolicy(input: {
  options: KubernetesLauncherRecipe
  attempt: Attempt
}): Record<string, unknown> {
  const { options, attempt } = input
  const { 'longhaul/fence': _, ...labels } = labelsOf(input)
  const pods = { podSelector: { matchLabels: { 'longhaul/job': attempt.job.jobId } } }
  const isAlone = attempt.job.layout.nodes === 1
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: networkPolicyName(attempt), namespace: options.namespace, labels },
    spec: {
      ...pods,
      policyTypes: ['Ingress', 'Egress'],
      ingress: isAlone ? [] : [{ from: [pods] }],
      egress: isAlone ? [] : [{ to: [pods] }, { to: [CLUSTER_DNS], ports: DNS_PORTS }],
    },
  }
}

export function networkPolicyName(attempt: Attempt): string {
  return `${kubernetesName(attempt)}-ranks`
}

/** Selects pods of the system namespace, which every cluster labels by its name. */
const CLUSTER_DNS = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }
const DNS_PORTS = ['UDP', 'TCP'].map((protocol) => ({ protocol, port: 53 }))

function jobSpec(
  input: { options: KubernetesLauncherRecipe; attempt: Attempt },
  nodes: number,
): Record<string, unknown> {
  const { options, attempt } = input
  const { job } = attempt
  return {
    backoffLimit: 0,
    completionMode: 'Indexed',
    completions: nodes,
    parallelism: nodes,
    template: {
      metadata: { labels: labelsOf(input) },
      spec: {
        restartPolicy: 'Never',
        // Set on the pod and not on the Job, so that the time counts from the assignment to a node and excludes the queue.
        activeDeadlineSeconds: Math.ceil((job.limits.timeoutMs + job.limits.graceMs) / 1000),
        terminationGracePeriodSeconds: Math.ceil(job.limits.graceMs / 1000),
        ...(options.serviceAccount === null ? {} : { serviceAccountName: options.serviceAccount }),
        automountServiceAccountToken: false,
        // A job needs no addresses of other services.
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: options.runAsUser,
          runAsGroup: options.runAsGroup,
          fsGroup: options.runAsGroup,
          // Avoids walking a volume of terabytes at every start.
          fsGroupChangePolicy: 'OnRootMismatch',
          seccompProfile: { type: 'RuntimeDefault' },
        },
        nodeSelector: options.nodeSelector,
        containers: [trainerContainer(input)],
        volumes: [
          { name: 'artifacts', persistentVolumeClaim: { claimName: options.claim } },
          { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: `${options.shmGiB}Gi` } },
          { name: 'tmp', emptyDir: { sizeLimit: `${SCRATCH_GIB}Gi` } },
        ],
      },
    },
  }
}

function trainerContainer(input: { options: KubernetesLauncherRecipe; attempt: Attempt }): Record<string, unknown> {
  const { options, attempt } = input
  const { job } = attempt
  const name = kubernetesName(attempt)
  const rendezvous =
    job.layout.nodes > 1
      ? { endpoint: `${name}-${NODES}-0-0.${name}:${PORT}`, nodeRank: '$(JOB_COMPLETION_INDEX)' }
      : null
  const resources = {
    cpu: String(options.cpus),
    memory: `${options.memoryGiB}Gi`,
    ...(options.gpusPerNode > 0 ? { 'nvidia.com/gpu': String(options.gpusPerNode) } : {}),
  }
  return {
    name: 'trainer',
    image: options.image,
    // Kubernetes itself expands `$(NAME)`. No shell runs between it and the trainer, so TERM reaches the trainer.
    command: [options.python, ...trainerArguments(attempt, rendezvous)],
    workingDir: job.jobDirectory,
    // Keeps the last log lines of a failed trainer with the pod, where the launcher reads them.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    env: [
      { name: 'OMP_WAIT_POLICY', value: 'PASSIVE' },
      // Compiled kernels and caches are written there, because the image is read-only and its user may have no home.
      { name: 'HOME', value: '/tmp' },
      { name: 'LONGHAUL_LAUNCHER_HANDLE', value: job.jobId },
      ...Object.entries(traceVariables()).map(([name, value]) => ({ name, value })),
      // Kubernetes also sets this in indexed Jobs. It is declared here so that the command may refer to it.
      {
        name: 'JOB_COMPLETION_INDEX',
        valueFrom: { fieldRef: { fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']" } },
      },
    ],
    resources: { requests: resources, limits: resources },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      { name: 'artifacts', mountPath: options.mountPath },
      { name: 'shm', mountPath: '/dev/shm' },
      { name: 'tmp', mountPath: '/tmp' },
    ],
  }
}

interface ManifestInput {
  options: KubernetesLauncherRecipe
  attempt: Attempt
}

function labelsOf({ options, attempt: { job, fence } }: ManifestInput): Record<string, string> {
  return {
    'app.kubernetes.io/name': 'longhaul-trainer',
    'longhaul/job': job.jobId,
    'longhaul/key': job.key.slice(0, 63),
    'longhaul/fence': String(fence),
    'longhaul/directory': directoryLabel(options, job),
  }
}

/** Equal jobs of two stores that share a namespace have one name: where a job's files are tells them apart. */
export function directoryLabel({ claim }: KubernetesLauncherRecipe, { jobDirectory }: Attempt['job']): string {
  return sha256Hex(`${claim}\n${jobDirectory}`).slice(0, 16)
}
