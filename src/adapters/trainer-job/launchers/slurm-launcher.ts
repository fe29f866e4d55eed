import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { SlurmLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { readHandle, writeHandle } from '../job/attempt-files.ts'
import type { Attempt, AttemptState, Launcher } from './launcher.types.ts'
import type { TrainerCommand } from './process-launcher.ts'
import { isUncertain, runTool, TOOL_DEADLINE_MS, type ToolInput } from '../job/run-tool.ts'
import { explainPending, remedyForEnd, remedyForRefusal } from './slurm-remedies.ts'
import { commentOf, slurmScript } from './slurm-script.ts'
import { submissionEnvironment } from './launch-command.ts'

export interface SlurmLauncherInput {
  /** Null for the site's defaults. */
  options: SlurmLauncherRecipe | null
  command: TrainerCommand
  /** Minimum interval between queries, because every query costs the scheduler work. @default 10_000 */
  pollMs?: number
  /** @default 15_000, slightly more than the time for which shared file systems cache a file's absence */
  settleMs?: number
  /** @default LAUNCH_MS */
  launchMs?: number
}

interface SlurmHandle {
  slurmJob: string
}

/** A job in any other state holds or awaits its nodes, or will: a REQUEUED job runs again under the same fence, and later versions of
 *  Slurm add states. */
const ENDED =
  /^(?:BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|LAUNCH_FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|RECONFIG_FAIL|REVOKED|TIMEOUT)\b/

/** The deadline of sbatch, plus the time until the controller lists an accepted job. */
const LAUNCH_MS = TOOL_DEADLINE_MS + 15_000

/** Nodes need a moment to clean up after KILL. */
const KILL_WAIT_MS = 60_000

/** Runs batch jobs of Slurm with `sbatch`, `squeue`, `sacct` if the site keeps accounts, and `scancel`. */
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
      const answer = await askSlurm('sbatch', ['--parsable'], {
        input: slurmScript({ options, command, attempt }),
        env: submissionEnvironment(),
      })
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
      const cancel = (...how: string[]) => runTool('scancel', [...how, ofName(attempt), id])
      // A pending job has no shell to signal.
      await cancel('--state=PENDING')
      // Signals the steps, not the shell around them.
      await cancel('--signal=TERM')
      if (await isGone(attempt, graceMs, pollMs)) return true
      await cancel('--full', '--signal=KILL')
      await cancel()
      return isGone(attempt, KILL_WAIT_MS, pollMs)
    },
  }
}

async function look(attempt: Attempt): Promise<AttemptState> {
  const id = await slurmJobOf(attempt)
  if (id === null) return { kind: 'absent', how: 'unknown to Slurm' }
  const seen = await stateOf(attempt, id)
  if (seen === null) return accounted(attempt, id)
  if (ENDED.test(seen.state)) return accounted(attempt, id, seen)
  if (seen.state !== 'PENDING') return { kind: 'alive' }
  const { why, isHopeless } = explainPending(seen.reason, id)
  return isHopeless ? { kind: 'alive', blockedBy: why } : { kind: 'alive', queuedBy: why }
}

/** Numbers begin again where a site sets up its scheduler anew: the number of an old handle is then somebody else's job. */
function ofName({ job }: Attempt): string {
  return `--name=${job.jobId}`
}

/** Returns the job id from the handle, or from the comment if the submitter died before it wrote the handle. Null if Slurm knows no
 *  such job. */
async function slurmJobOf(attempt: Attempt): Promise<string | null> {
  const handle = await readHandle<SlurmHandle>(attempt)
  if (handle !== null) return handle.slurmJob
  const text = await askSlurm('squeue', ['--noheader', '--states=all', ofName(attempt), '--format=%i|%k'])
  const wanted = commentOf(attempt)
  const found = text
    .split('\n')
    .map((line) => line.split('|'))
    .find(([, comment]) => comment?.trim() === wanted)
  return found?.[0]?.trim() ?? null
}

/** What `squeue` knows of a job: why it waits, or why it did not start. */
interface SeenJob {
  state: string
  /** `None` for a job that runs. */
  reason: string
}

/** Returns null once the controller has forgotten the job (MinJobAge after its end). */
async function stateOf(attempt: Attempt, id: string): Promise<SeenJob | null> {
  const { code, stdout, stderr } = await runTool('squeue', [
    '--noheader',
    '--states=all',
    `--jobs=${id}`,
    ofName(attempt),
    '--format=%T|%r',
  ])
  if (code === 0) {
    const [state = '', reason = ''] = (stdout.trim().split('\n')[0] ?? '').split('|').map((field) => field.trim())
    return state === '' ? null : { state, reason }
  }
  if (/invalid job id/i.test(stderr)) return null
  throw refusalOf('squeue', code, stderr)
}

/** Returns how the job ended, if the site keeps accounts; otherwise the trainer's own report must suffice. */
async function accounted(attempt: Attempt, id: string, seen?: SeenJob): Promise<AttemptState> {
  const { code, stdout } = await runTool('sacct', [
    '--noheader',
    '--allocations',
    '--parsable2',
    `--jobs=${id}`,
    ofName(attempt),
    '--format=State,ExitCode',
  ]).catch(() => ({ code: 1, stdout: '' }))
  const [state, exit] = (code === 0 ? (stdout.trim().split('\n')[0] ?? '') : '').split('|')
  if (state === undefined || state === '') return { kind: 'over', code: null, how: endOf(seen?.state, seen?.reason) }
  if (!ENDED.test(state)) return { kind: 'alive' }
  return { kind: 'over', code: codeOf(state, exit), how: endOf(nameUser(state), seen?.reason) }
}

/**
 * Slurm writes `CODE:SIGNAL`. A job that was cancelled, killed by a signal or lost with its node has 0 as its code, which says nothing: null.
 */
function codeOf(state: string, exit = ''): number | null {
  const [code, signal] = exit.split(':').map(Number)
  if (code === undefined || !Number.isInteger(code) || signal !== 0) return null
  return code !== 0 || state === 'COMPLETED' ? code : null
}

/** `CANCELLED by 1000` names a user. */
function nameUser(state: string): string {
  return state.replace(/ by (\d+)$/, ' by user $1')
}

/** As `FAILED for Slurm (JobLaunchFailure) → …`. Most reasons of an ended job say only why it once waited. */
function endOf(state = 'forgotten', reason = ''): string {
  const ofReason = remedyForEnd(reason)
  return ofReason === '' ? `${state} for Slurm${remedyForEnd(state)}` : `${state} for Slurm (${reason})${ofReason}`
}

/** Runs a command and refuses every non-zero exit code. @throws LonghaulError `Trainer.Unavailable`, with `refused` if the command
 *  certainly had no effect */
async function askSlurm(tool: string, args: string[], input: ToolInput = {}): Promise<string> {
  const { code, stdout, stderr } = await runTool(tool, args, input)
  if (code === 0) return stdout
  throw refusalOf(tool, code, stderr)
}

function refusalOf(tool: string, code: number, stderr: string): LonghaulError {
  const said = stderr.trim().slice(-500)
  return new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected an answer from ${tool}: status ${code}: ${said}${remedyForRefusal(said)}`,
    details: { tool, refused: !isUncertain(said) },
  })
}

async function isGone(attempt: Attempt, withinMs: number, pollMs: number): Promise<boolean> {
  for (const deadline = Date.now() + withinMs; ; ) {
    if (['over', 'absent'].includes((await look(attempt)).kind)) return true
    if (Date.now() >= deadline) return false
    await sleep(Math.min(pollMs, 1_000))
  }
}
