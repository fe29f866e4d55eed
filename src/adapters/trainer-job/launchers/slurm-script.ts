import { join } from 'node:path'
import type { SlurmLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { attemptDirectory } from '../job/attempt-files.ts'
import { trainerArguments } from './launch-command.ts'
import type { Attempt } from './launcher.types.ts'
import type { TrainerCommand } from './process-launcher.ts'
import { shellWord } from '../../../platform/shell-quote.ts'
import { traceVariables } from '../../../platform/current-trace.ts'

/** Time for Slurm itself around the job's own limit. */
const LIMIT_MARGIN_MIN = 5

/** One port for each job on its first node, away from the ephemeral ones: two jobs may share a node. */
const FIRST_PORT = 15_000
const PORTS = 10_000

/**
 * The batch script of one attempt: one task a node, torchrun in it where the job has several ranks. Ahead of the time limit and on
 * preemption Slurm signals the shell, which passes TERM on; the trainer saves and leaves with 75. Slurm never repeats it by itself (and
 * where a site does, the lease refuses a fence that is not the newest).
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
    // Names are not unique: a second one of the same name waits for the first.
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
    ...Object.entries(environment).map(([name, value]) => `export ${name}=${shellWord(value)}`),
    ...(rendezvous === null ? [] : ['export MASTER=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)']),
    // The node's own number is known only in the task.
    `srun --kill-on-bad-exit=1 bash -c ${shellWord(`exec ${node}`)} &`,
    'task=$!',
    // To the steps: srun itself would answer TERM by killing them.
    `trap 'scancel --signal=TERM "$SLURM_JOB_ID"' USR1 TERM`,
    // A trapped signal ends the wait before the task ends.
    'while kill -0 "$task" 2>/dev/null; do wait "$task"; code=$?; done',
    `exit "$code"`,
    '',
  ].join('\n')
}

/** Variables of the script stay variables, everything else is one literal word. */
function wordOf(word: string): string {
  return /\$(MASTER|SLURM_NODEID)/.test(word) ? `"${word}"` : shellWord(word)
}

/** Found again by it: the key says which job, the fence which attempt. */
export function commentOf({ job, fence }: Attempt): string {
  return `longhaul:${job.key.slice(0, 32)}:${fence}`
}

function named(name: string, value: string | number | null | undefined): string[] {
  return value === null || value === undefined ? [] : [`--${name}=${value}`]
}
