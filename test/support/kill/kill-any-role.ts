/** Sends SIGKILL to a random part of a stack, repeatedly, until the run is over. */
import { setTimeout as sleep } from 'node:timers/promises'
import { seededRandom } from '../../../src/domain/statistics/bootstrap.ts'
import { signalGroup } from '../../../src/platform/processes.ts'
import type { RunningStack } from '../start-stack.ts'
import { listTrainingJobs } from '../../../src/stack/down.ts'

export interface RoleKilled {
  /** Service name, or `training-job`. */
  role: string
  atMs: number
}

export interface KillAnyRoleInput {
  stack: RunningStack
  seed: number
  everyMs: number
  signal: AbortSignal
  say: (line: string) => void
}

const TRAINING_JOB = 'training-job'

/** Every role of the stack is equally likely; a training job only while one runs. Resolves when the signal aborts. */
export async function killAnyRole({ stack, seed, everyMs, signal, say }: KillAnyRoleInput): Promise<RoleKilled[]> {
  const random = seededRandom(seed)
  const killed: RoleKilled[] = []
  while (await paused(everyMs, signal)) {
    const roles = [
      ...Object.keys(await stack.pids()).toSorted(),
      ...(listTrainingJobs(stack).length > 0 ? [TRAINING_JOB] : []),
    ]
    const role = roles[Math.floor(random() * roles.length)]
    if (role === undefined) continue
    killed.push({ role, atMs: Date.now() })
    say(`       killed ${role}`)
    if (role === TRAINING_JOB) for (const job of listTrainingJobs(stack)) signalGroup(job, 'SIGKILL')
    // If a part does not return in time, the run does not end.
    else await stack.kill(role).catch((error: unknown) => say(`       ${role} is late: ${String(error)}`))
  }
  return killed
}

/** False if the signal aborted first. */
async function paused(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal })
    return true
  } catch {
    return false
  }
}
