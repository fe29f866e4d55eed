import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { SlurmLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { readHandle, writeHandle } from '../job/attempt-files.ts'
import type { Attempt, AttemptState, Launcher } from './launcher.types.ts'
import type { TrainerCommand } from './process-launcher.ts'
import { askTool, runTool, TOOL_DEADLINE_MS } from '../job/run-tool.ts'
import { commentOf, slurmScript } from './slurm-script.ts'

export interface SlurmLauncherInput {
  /** Null: the site's own defaults. */
  options: SlurmLauncherRecipe | null
  command: TrainerCommand
  /** How often the scheduler is asked; every question costs it work. @default 10_000 */
  pollMs?: number
  /** @default 15_000: what shared file systems remember of a file's absence, and some */
  settleMs?: number
  /** @default LAUNCH_MS */
  launchMs?: number
}

interface SlurmHandle {
  slurmJob: string
}

/** States in which a job holds or awaits its nodes; REQUEUED ones run again under the same fence. */
const LIVING = new Set([
  'PENDING',
  'CONFIGURING',
  'RUNNING',
  'COMPLETING',
  'SUSPENDED',
  'STOPPED',
  'SIGNALING',
  'STAGE_OUT',
  'RESIZING',
  'REQUEUED',
  'REQUEUE_HOLD',
  'REQUEUE_FED',
  'RESV_DEL_HOLD',
  'SPECIAL_EXIT',
])

/** The deadline of sbatch, and what the controller needs to show the job that it took. */
const LAUNCH_MS = TOOL_DEADLINE_MS + 15_000

/** After KILL the nodes need a moment to clean up. */
const KILL_WAIT_MS = 60_000

/** Batch jobs of Slurm: `sbatch`, `squeue`, then `sacct` where the site keeps accounts, `scancel`. */
export function createSlurmLauncher({
  options,
  command,
  pollMs = 10_000,
  settleMs = 15_000,
  launchMs = LAUNCH_MS,
}: SlurmLauncherInput): Launcher {
  return {
    isElsewhere: true,
    pollMs,
    settleMs,
    launchMs,
    async launch(attempt) {
      const answer = await askTool('sbatch', ['--parsable'], slurmScript({ options, command, attempt }))
      // `123` or `123;cluster`.
      const slurmJob = /^\d+/.exec(answer)?.[0]
      if (slurmJob === undefined) {
        throw new LonghaulError({
          code: 'Trainer.Unavailable',
          message: `Expected a job number from sbatch, got ${JSON.stringify(answer.slice(0, 100))}`,
        })
      }
      await writeHandle(attempt, { slurmJob } satisfies SlurmHandle)
    },
    look,
    async stop(attempt, graceMs) {
      const id = await slurmJobOf(attempt)
      if (id === null) return true
      // One that still waits has no shell to tell.
      await runTool('scancel', ['--state=PENDING', id])
      // To the steps, not to the shell around them.
      await runTool('scancel', ['--signal=TERM', id])
      if (await isGone(attempt, graceMs, pollMs)) return true
      await runTool('scancel', ['--full', '--signal=KILL', id])
      await runTool('scancel', [id])
      return isGone(attempt, KILL_WAIT_MS, pollMs)
    },
  }
}

async function look(attempt: Attempt): Promise<AttemptState> {
  const id = await slurmJobOf(attempt)
  if (id === null) return { kind: 'absent', how: 'unknown to Slurm' }
  const state = await stateOf(id)
  if (state === null) return accounted(id)
  return LIVING.has(state) ? { kind: 'alive' } : accounted(id, state)
}

/** The handle, or the comment where the submitter died before it wrote one. Null when Slurm knows of none. */
async function slurmJobOf(attempt: Attempt): Promise<string | null> {
  const handle = await readHandle<SlurmHandle>(attempt)
  if (handle !== null) return handle.slurmJob
  const text = await askTool('squeue', ['--noheader', '--states=all', `--name=${attempt.job.jobId}`, '--format=%i|%k'])
  const wanted = commentOf(attempt)
  const found = text
    .split('\n')
    .map((line) => line.split('|'))
    .find(([, comment]) => comment?.trim() === wanted)
  return found?.[0]?.trim() ?? null
}

/** Null once the controller has forgotten it (MinJobAge after its end). */
async function stateOf(id: string): Promise<string | null> {
  const { code, stdout, stderr } = await runTool('squeue', [
    '--noheader',
    '--states=all',
    `--jobs=${id}`,
    '--format=%T',
  ])
  if (code === 0) return stdout.trim().split('\n')[0]?.trim() || null
  if (/invalid job id/i.test(stderr)) return null
  throw new LonghaulError({ code: 'Trainer.Unavailable', message: `Expected an answer from squeue: ${stderr.trim()}` })
}

/** How it ended, as far as the site remembers; without accounts the trainer's own report has to do. */
async function accounted(id: string, seen?: string): Promise<AttemptState> {
  const { code, stdout } = await runTool('sacct', [
    '--noheader',
    '--allocations',
    '--parsable2',
    `--jobs=${id}`,
    '--format=State,ExitCode',
  ]).catch(() => ({ code: 1, stdout: '' }))
  const [state, exit] = (code === 0 ? (stdout.trim().split('\n')[0] ?? '') : '').split('|')
  if (state === undefined || state === '') return { kind: 'over', code: null, how: `${seen ?? 'forgotten'} for Slurm` }
  if (LIVING.has(state)) return { kind: 'alive' }
  const status = Number(exit?.split(':')[0])
  return { kind: 'over', code: Number.isInteger(status) ? status : null, how: `${state} for Slurm` }
}

async function isGone(attempt: Attempt, withinMs: number, pollMs: number): Promise<boolean> {
  for (const deadline = Date.now() + withinMs; ; ) {
    if (['over', 'absent'].includes((await look(attempt)).kind)) return true
    if (Date.now() >= deadline) return false
    await sleep(Math.min(pollMs, 1_000))
  }
}
