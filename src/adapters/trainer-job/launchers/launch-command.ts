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
