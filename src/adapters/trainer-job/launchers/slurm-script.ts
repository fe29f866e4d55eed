import { join } from 'node:path'
import type { SlurmLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { attemptDirectory } from '../job/attempt-files.ts'
import { SLURM_CREDENTIAL, trainerArguments } from './launch-command.ts'
import type { Attempt } from './launcher.types.ts'
import type { TrainerCommand } from './process-launcher.ts'
import { shellWord } from '../../../platform/run-command.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import { traceVariables } from '../../../platform/current-trace.ts'

/** Extra time for Slurm itself beyond the job's limit. */
const LIMIT_MARGIN_MIN = 5

/** Each job has its own port on its first node, because two jobs may share a node. The range avoids ephemeral ports. */
const FIRST_PORT = 15_000
const PORTS = 10_000

/**
 * Builds the batch script of one attempt: one task per node, with torchrun in it if the job has several ranks. Before the time limit
 * and on preemption Slurm signals the shell, which forwards TERM. The trainer saves and exits with 75. Slurm does not requeue it; if a
 * site does anyway, the lease refuses every fence that is not the newest.
 */
export function slurmScript(input: {
  options: SlurmLauncherRecipe | null
  command: TrainerCommand
  attempt: Attempt
}): string {
  const { options, command, attempt } = input
  const { job, fence } = attempt
  const { nodes } = job.layout
  const minutes = Math.ceil(job.limits.timeoutMs / 60_000) + LIMIT_MARGIN_MIN
  const log = join(attemptDirectory(job.jobDirectory, fence), 'stdout.log')
  const port = FIRST_PORT + (Number.parseInt(job.key.slice(0, 8), 16) % PORTS)
  const rendezvous = nodes > 1 ? { endpoint: `$MASTER:${port}`, nodeRank: '$SLURM_NODEID' } : null
  const python = options?.python ?? command.python
  const headers = [
    `--job-name=${job.jobId}`,
    `--comment=${commentOf(attempt)}`,
    `--nodes=${nodes}`,
    '--ntasks-per-node=1',
    `--time=${minutes}`,
    '--no-requeue',
    // Names are not unique. This makes a second job of the same name wait for the first.
    '--dependency=singleton',
    `--signal=B:USR1@${Math.ceil(job.limits.graceMs / 1000) + 30}`,
    '--open-mode=append',
    `--output=${log}`,
    ...named('partition', options?.partition),
    ...named('account', options?.account),
    ...named('qos', options?.qos),
    ...named('gpus-per-node', options?.gpusPerNode),
    ...named('cpus-per-task', options?.cpusPerTask),
    ...named('mem', options?.memory),
    ...(options?.extra ?? []),
  ]
  const environment = {
    OMP_WAIT_POLICY: 'PASSIVE',
    ...command.env,
    ...traceVariables(),
    LONGHAUL_LAUNCHER_HANDLE: job.jobId,
  }
  const node = [python, ...trainerArguments(attempt, rendezvous)].map(wordOf).join(' ')
  return [
    '#!/bin/bash',
    ...headers.map((header) => `#SBATCH ${header}`),
    `unset ${SLURM_CREDENTIAL}`,
    ...Object.entries(environment).map(([name, value]) => `export ${name}=${shellWord(value)}`),
    ...(rendezvous === null ? [] : ['export MASTER=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)']),
    // The node's own rank is known only inside the task.
    // A site that exports nothing to jobs (SBATCH_EXPORT, --export) would withhold the variables above from the task too.
    `srun --export=ALL --kill-on-bad-exit=1 bash -c ${shellWord(`exec ${node}`)} &`,
    'task=$!',
    // Signals the steps, because srun itself would answer TERM by killing them.
    `trap 'scancel --signal=TERM "$SLURM_JOB_ID"' USR1 TERM`,
    // A trapped signal ends `wait` before the task ends.
    'while kill -0 "$task" 2>/dev/null; do wait "$task"; code=$?; done',
    `exit "$code"`,
    '',
  ].join('\n')
}

/** Variables of the script stay variables; everything else becomes one literal word. */
function wordOf(word: string): string {
  return /\$(MASTER|SLURM_NODEID)/.test(word) ? `"${word}"` : shellWord(word)
}

/** Identifies the attempt in Slurm: the key names the job, the fence names the attempt, and the hash of the job's directory names the
 *  store, because the equal job of another one has the same key. */
export function commentOf({ job, fence }: Attempt): string {
  return `longhaul:${job.key.slice(0, 32)}:${fence}:${sha256Hex(job.jobDirectory).slice(0, 16)}`
}

function named(name: string, value: string | number | null | undefined): string[] {
  return value === null || value === undefined ? [] : [`--${name}=${value}`]
}
