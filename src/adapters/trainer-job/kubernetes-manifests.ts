import type { KubernetesLauncherRecipe } from '../../contracts/recipe.types.ts'
import { trainerArguments } from './launch-command.ts'
import type { Attempt } from './launcher.types.ts'

/** One port for all: each job has a network name of its own. */
const PORT = 29_400
const NODES = 'node'

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
    activeDeadlineSeconds: Math.ceil((job.limits.timeoutMs + job.limits.graceMs) / 1000),
    template: {
      metadata: { labels: labelsOf(attempt) },
      spec: {
        restartPolicy: 'Never',
        terminationGracePeriodSeconds: Math.ceil(job.limits.graceMs / 1000),
        ...(options.serviceAccount === null ? {} : { serviceAccountName: options.serviceAccount }),
        automountServiceAccountToken: false,
        nodeSelector: options.nodeSelector,
        containers: [trainerContainer(input)],
        volumes: [
          { name: 'artifacts', persistentVolumeClaim: { claimName: options.claim } },
          { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: `${options.shmGiB}Gi` } },
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
    env: [
      { name: 'OMP_WAIT_POLICY', value: 'PASSIVE' },
      { name: 'LONGHAUL_LAUNCHER_HANDLE', value: job.jobId },
      // Set by Kubernetes in indexed Jobs too; named here so that the command may use it.
      {
        name: 'JOB_COMPLETION_INDEX',
        valueFrom: { fieldRef: { fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']" } },
      },
    ],
    resources: { requests: resources, limits: resources },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    volumeMounts: [
      { name: 'artifacts', mountPath: options.mountPath },
      { name: 'shm', mountPath: '/dev/shm' },
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
