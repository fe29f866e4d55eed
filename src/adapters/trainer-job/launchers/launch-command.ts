import { specPath } from '../job/attempt-files.ts'
import type { Attempt } from './launcher.types.ts'

/** Added to torchrun's own 30 s, because an inner checkpoint takes longer. Our grace period ends the wait anyway. */
const SHUTDOWN_MARGIN_S = 15

/** How the nodes of one job find each other; absent for a single machine. */
export interface Rendezvous {
  /** `host:port`, or a shell expression that the launcher's script evaluates. */
  endpoint: string
  /** Rank of the node: a number or a shell expression. */
  nodeRank: string
}

/**
 * Python's arguments for one node. A single rank is a plain process. torchrun starts several ranks and never restarts one, because an
 * attempt ends as a whole and the next one resumes from the last commit.
 */
export function trainerArguments({ job, fence }: Attempt, rendezvous: Rendezvous | null = null): string[] {
  const step = ['-m', 'longhaul_trainer', 'step', '--spec', specPath(job.jobDirectory, fence)]
  const { nodes, ranksPerNode } = job.layout
  if (nodes * ranksPerNode === 1) return step
  return [
    '-m',
    // On one machine our own launcher is used, because torchrun's rendezvous listens on all interfaces and accepts pickles.
    ...(rendezvous === null ? ['longhaul_trainer.parallel.launch'] : ['torch.distributed.run', `--nnodes=${nodes}`]),
    `--nproc-per-node=${ranksPerNode}`,
    '--max-restarts=0',
    // Ranks write to the job's log. Otherwise torchrun creates a log directory and leaves it behind when it is killed.
    '--log-dir=/dev/null',
    `--shutdown-timeout=${Math.ceil(job.limits.graceMs / 1000) + SHUTDOWN_MARGIN_S}`,
    ...(rendezvous === null
      ? []
      : [
          `--master-addr=${hostOf(rendezvous)}`,
          `--master-port=${portOf(rendezvous)}`,
          `--node-rank=${rendezvous.nodeRank}`,
        ]),
    ...step,
  ]
}

function hostOf({ endpoint }: Rendezvous): string {
  return endpoint.slice(0, endpoint.lastIndexOf(':'))
}

function portOf({ endpoint }: Rendezvous): string {
  return endpoint.slice(endpoint.lastIndexOf(':') + 1)
}

/** What a process needs to find programs, its home, its libraries and its language. */
const NEEDED: ReadonlySet<string> = new Set([
  'HF_HUB_OFFLINE',
  'HOME',
  'LANG',
  'LANGUAGE',
  'LD_LIBRARY_PATH',
  'LD_PRELOAD',
  'LOGNAME',
  // Strikes one place of the trainer's own kill tests.
  'LONGHAUL_TRAINER_STRIKE',
  'PATH',
  'SHELL',
  'TMPDIR',
  'TOKENIZERS_PARALLELISM',
  'TZ',
  'USER',
  'XDG_CACHE_HOME',
])

/** Settings of what a trainer computes with: the interpreter, devices, threads, connections between ranks. */
const SETTINGS =
  /^(?:PYTHON[A-Z0-9]+$|(?:LC|CUDA|CUBLAS|CUDNN|NVIDIA|NCCL|GLOO|TP|UCX|FI|IBV|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|OMP|GOMP|KMP|MKL|OPENBLAS|NUMEXPR|HIP|ROCR|RCCL|MALLOC)_)/

/** Nothing with such a name is a setting; NCCL_IB_PKEY is one, a partition's number. */
const SECRET = /(?:^|_)(?:API)?KEYS?(?:_|$)|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH/

/**
 * The variables of a worker that its trainer gets. The worker's own hold the keys of its stores, servers and hubs, and a job needs none
 * of them: it reads files and writes files. Whatever else a job needs is named by its launcher.
 */
export function trainerEnvironment(env: NodeJS.ProcessEnv = process.env): Record<string, string> {
  return pick(env, (name) => NEEDED.has(name) || (SETTINGS.test(name) && !SECRET.test(name)))
}

/** Slurm's credential, where a site has such. `sbatch` needs it, so it is in the job's environment until the script forgets it. */
export const SLURM_CREDENTIAL = 'SLURM_JWT'
const OF_SLURM: ReadonlySet<string> = new Set(['SLURM_CONF', 'SLURM_CONF_SERVER', SLURM_CREDENTIAL])

/**
 * The variables for `sbatch`, which copies its own environment into the job. Those of a job that the worker itself runs in (SLURM_JOB_ID,
 * SLURM_CPUS_PER_TASK) are no part of it: `srun` would take them for the new job's.
 */
export function submissionEnvironment(env: NodeJS.ProcessEnv = process.env): Record<string, string> {
  return { ...trainerEnvironment(env), ...pick(env, (name) => OF_SLURM.has(name) || name.startsWith('SBATCH_')) }
}

function pick(env: NodeJS.ProcessEnv, isWanted: (name: string) => boolean): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value !== undefined && isWanted(name) ? [[name, value]] : [])),
  )
}
