import { specPath } from '../job/attempt-files.ts'
import type { Attempt } from './launcher.types.ts'

/** Beyond torchrun's own 30 s: an inner checkpoint takes longer, and our grace ends the wait anyway. */
const SHUTDOWN_MARGIN_S = 15

/** How the nodes of one job find each other; absent on one machine. */
export interface Rendezvous {
  /** `host:port`, a shell expression where the launcher's script evaluates it. */
  endpoint: string
  /** Rank of the node, a number or a shell expression. */
  nodeRank: string
}

/**
 * Arguments of Python for one node. One rank is a plain process. Several are started by torchrun, which never restarts one:
 * an attempt ends as a whole and the next one resumes from the last commit.
 */
export function trainerArguments({ job, fence }: Attempt, rendezvous: Rendezvous | null = null): string[] {
  const step = ['-m', 'longhaul_trainer', 'step', '--spec', specPath(job.jobDirectory, fence)]
  const { nodes, ranksPerNode } = job.layout
  if (nodes * ranksPerNode === 1) return step
  return [
    '-m',
    // On one machine ours, because torchrun's meeting point listens on all interfaces and takes pickles.
    ...(rendezvous === null ? ['longhaul_trainer.parallel.launch'] : ['torch.distributed.run', `--nnodes=${nodes}`]),
    `--nproc-per-node=${ranksPerNode}`,
    '--max-restarts=0',
    // Ranks write to the job's log. Without this torchrun makes a directory for logs, and leaves it where it is killed.
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
