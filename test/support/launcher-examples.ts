/** The attempt in the examples of `infra/`: `node test/support/launcher-examples.ts` writes them again. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PreparedJob } from '../../src/adapters/trainer-job/job/job-spec.ts'
import { jobNetworkPolicy, kubernetesManifest } from '../../src/adapters/trainer-job/launchers/kubernetes-manifests.ts'
import type { Attempt } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import { slurmScript } from '../../src/adapters/trainer-job/launchers/slurm-script.ts'
import type { KubernetesLauncherRecipe, SlurmLauncherRecipe } from '../../src/contracts/recipe.types.ts'

const STORE = '/shared/longhaul'
const JOB = `${STORE}/runs/paper-72b/jobs/dapo-1/0003/0`

export function exampleAttempt(size: { nodes: number; ranksPerNode: number }): Attempt {
  const job: PreparedJob = {
    key: '0123456789abcdef'.repeat(4),
    jobId: 'dapo-0123456789abcdef',
    spec: {},
    jobDirectory: JOB,
    artifactRoot: STORE,
    layout: { ...size, device: 'cuda' },
    checkpoint: { directory: `${STORE}/checkpoints/v000020-01234567`, uri: '' },
    policy: { directory: `${STORE}/policies/v000020-01234567`, uri: '', version: 'v000020-01234567' },
    globalStep: 12,
    steps: 8,
    limits: { timeoutMs: 43_200_000, stallMs: 1_800_000, graceMs: 30_000 },
  }
  return { job, fence: 1 }
}

export const exampleOptions: KubernetesLauncherRecipe = {
  namespace: 'training',
  image: 'registry.example/longhaul-trainer:0.1.0',
  python: 'python3',
  claim: 'longhaul-artifacts',
  mountPath: '/shared',
  gpusPerNode: 8,
  cpus: 64,
  memoryGiB: 960,
  shmGiB: 64,
  serviceAccount: null,
  runAsUser: 1000,
  runAsGroup: 1000,
  nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-H200' },
}

/** A site's own defaults. */
export const noSlurmOptions: SlurmLauncherRecipe = {
  partition: null,
  account: null,
  qos: null,
  gpusPerNode: null,
  cpusPerTask: null,
  memory: null,
  python: null,
  extra: [],
}

const slurmOptions: SlurmLauncherRecipe = {
  partition: 'gpu',
  account: null,
  qos: null,
  gpusPerNode: 8,
  cpusPerTask: 64,
  memory: '960G',
  python: '/shared/longhaul-python/bin/python',
  extra: ['--exclusive'],
}

/** The batch script of 16 nodes with 8 ranks each. */
export function exampleScript(): string {
  const command = { python: 'python3', env: { PYTHONPATH: '/shared/longhaul-package/trainer' } }
  return slurmScript({ options: slurmOptions, command, attempt: exampleAttempt({ nodes: 16, ranksPerNode: 8 }) })
}

if (import.meta.main) {
  const infra = join(import.meta.dirname, '../../infra')
  const sizes = { 'kubernetes/job.json': 1, 'kubernetes/jobset.json': 16 }
  for (const [name, nodes] of Object.entries(sizes)) {
    const manifest = kubernetesManifest({
      options: exampleOptions,
      attempt: exampleAttempt({ nodes, ranksPerNode: 8 }),
    })
    await writeFile(join(infra, name), `${JSON.stringify(manifest, null, 2)}\n`)
  }
  const policies = { 'kubernetes/network-policy.json': 1, 'kubernetes/network-policy-jobset.json': 16 }
  for (const [name, nodes] of Object.entries(policies)) {
    const policy = jobNetworkPolicy({ options: exampleOptions, attempt: exampleAttempt({ nodes, ranksPerNode: 8 }) })
    await writeFile(join(infra, name), `${JSON.stringify(policy, null, 2)}\n`)
  }
  await writeFile(join(infra, 'slurm/step.sh'), exampleScript())
}
