import type { KubernetesLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { trainerArguments } from './launch-command.ts'
import type { Attempt } from './launcher.types.ts'
import { traceVariables } from '../../../platform/current-trace.ts'

/** One port for all: each job has a network name of its own. */
const PORT = 29_400
const NODES = 'node'
/** Compiled kernels of a job take some hundred megabytes. */
const SCRATCH_GIB = 16

/** Name of the Job or JobSet: the job's own, so that a second launch collides. Valid DNS label, ≤ 40 characters. */
export function kubernetesName({ job }: Attempt): string {
  return `longhaul-${job.jobId}`
}

/** A Job for one node; a JobSet for several, which gives each pod a name that the others can reach. */
export function kubernetesManifest(input: {
  options: KubernetesLauncherRecipe
  attempt: Attempt
}): Record<string, unknown> {
  const { options, attempt } = input
  const { nodes } = attempt.job.layout
  const metadata = { name: kubernetesName(attempt), namespace: options.namespace, labels: labelsOf(attempt) }
  if (nodes === 1) return { apiVersion: 'batch/v1', kind: 'Job', metadata, spec: jobSpec(input, 1) }
  return {
    apiVersion: 'jobset.x-k8s.io/v1alpha2',
    kind: 'JobSet',
    metadata,
    spec: {
      // An attempt ends as a whole; the pipeline starts the next one under a higher fence.
      failurePolicy: { maxRestarts: 0 },
      network: { enableDNSHostnames: true, publishNotReadyAddresses: true },
      replicatedJobs: [{ name: NODES, replicas: 1, template: { spec: jobSpec(input, nodes) } }],
    },
  }
}

/**
 * Who may speak with the pods of a job: each other, and of several nodes with the cluster's names. The store where ranks meet, and
 * the connections between them, ask for no key. Of one node ranks speak over loopback, which no policy touches. All attempts
 * of a job share it, so it is there before the first pod is.
 */
export function jobNetworkPolicy(input: {
  options: KubernetesLauncherRecipe
  attempt: Attempt
}): Record<string, unknown> {
  const { options, attempt } = input
  const { 'longhaul/fence': _, ...labels } = labelsOf(attempt)
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

/** Pods of the system's namespace, which every cluster labels by its name. */
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
      metadata: { labels: labelsOf(attempt) },
      spec: {
        restartPolicy: 'Never',
        // Of the pod, not of the Job: it counts from the node on, so that a place in the queue costs nothing of it.
        activeDeadlineSeconds: Math.ceil((job.limits.timeoutMs + job.limits.graceMs) / 1000),
        terminationGracePeriodSeconds: Math.ceil(job.limits.graceMs / 1000),
        ...(options.serviceAccount === null ? {} : { serviceAccountName: options.serviceAccount }),
        automountServiceAccountToken: false,
        // Addresses of other services are nothing that a job needs.
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: options.runAsUser,
          runAsGroup: options.runAsGroup,
          fsGroup: options.runAsGroup,
          // A claim of terabytes is not walked at each start.
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
    // Kubernetes itself fills in `$(NAME)`; no shell stands between it and the trainer, so TERM arrives.
    command: [options.python, ...trainerArguments(attempt, rendezvous)],
    workingDir: job.jobDirectory,
    // The last lines of a trainer that ends badly stay with the pod, where the launcher reads them.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    env: [
      { name: 'OMP_WAIT_POLICY', value: 'PASSIVE' },
      // Compiled kernels and caches go there: the image is read-only, and its user may have no home.
      { name: 'HOME', value: '/tmp' },
      { name: 'LONGHAUL_LAUNCHER_HANDLE', value: job.jobId },
      ...Object.entries(traceVariables()).map(([name, value]) => ({ name, value })),
      // Set by Kubernetes in indexed Jobs too; named here so that the command may use it.
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

function labelsOf({ job, fence }: Attempt): Record<string, string> {
  return {
    'app.kubernetes.io/name': 'longhaul-trainer',
    'longhaul/job': job.jobId,
    'longhaul/key': job.key.slice(0, 63),
    'longhaul/fence': String(fence),
  }
}
