import { createHash } from 'node:crypto'

/** When the sandbox worker dies: shortly after the n-th sampling request or answer of a rollout. */
export interface WorkerKill {
  /** Stage of the episodes: `rft`, `dapo-1`. */
  stage: string
  /** `asked`: an action is being sampled. `answered`: an action is being recorded or executed, or its answer recorded. */
  on: 'asked' | 'answered'
  count: number
  delayMs: number
}

/** When the trainer dies: after this many optimizer steps of the job if the job has more, otherwise right after its start. */
export interface TrainerKill {
  stage: string
  iteration: number
  afterSteps: number
  delayMs: number
}

export interface KillPlan {
  seed: number
  workers: WorkerKill[]
  trainers: TrainerKill[]
}

/** The same seed gives the same moments. Counts stay in the first half of a rollout, so that episodes are open then. */
export function planKills(seed: number): KillPlan {
  const draw = (what: string, below: number): number =>
    createHash('sha256').update(`kill\n${seed}\n${what}`).digest().readUInt32BE(0) % below
  const worker = (stage: string): WorkerKill => ({
    stage,
    on: draw(`${stage} on`, 2) === 0 ? 'asked' : 'answered',
    count: 3 + draw(`${stage} count`, 12),
    // A command of the demo takes 5 ms, a test run of the agent 400.
    delayMs: draw(`${stage} delay`, 300),
  })
  const trainer = (stage: string, iteration: number): TrainerKill => ({
    stage,
    iteration,
    afterSteps: 1 + draw(`${stage} steps`, 2),
    delayMs: draw(`${stage} step delay`, 20),
  })
  return {
    seed,
    workers: [worker('rft'), worker('dapo-1')],
    trainers: [trainer('rft', 0), trainer('dapo-1', 1)],
  }
}
