/**
 * A small run in which the sandbox worker dies twice and each training job's process once, by SIGKILL at seeded moments. The stack's
 * supervisor restarts the worker; the pipeline must handle everything else.
 */
import { fileURLToPath } from 'node:url'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import type { RunHandle } from '../../../src/client/index.ts'
import type { TrainAgentResult } from '../../../src/contracts/workflows.types.ts'
import type { PipelineWorld } from '../pipeline-world.ts'
import { type RecordingProxy, startRecordingProxy } from '../recording-proxy.ts'
import { runNameOf, runRecipe } from '../run-recipe.ts'
import { withDeadline } from '../with-deadline.ts'
import { GROUP_SIZE, judgeRun, type RunJudgement } from './judge-run.ts'
import { type KillPlan, planKills, type TrainerKill } from './kill-plan.ts'
import { killTrainerAt, type TrainerKilled } from './kill-trainer.ts'
import { killWorkerAt, type WorkerKilled } from './kill-worker.ts'
import { traceExecutions } from './trace-executions.ts'
import { HANG_MS, STORY_MS } from '../hang.ts'

export interface KillReport extends RunJudgement {
  seed: number
  wallS: number
  workers: WorkerKilled[]
  trainers: TrainerKilled[]
}

/** The kills, and those whose moment never came. */
export interface Killed {
  workers: WorkerKilled[]
  trainers: TrainerKilled[]
  missed: { what: 'worker' | 'trainer'; stage: string; why: string }[]
}

const RECIPES = fileURLToPath(new URL('../../../recipes', import.meta.url))

/** Turn limit of every stage: the trace submits the work in the last turn. */
const MAX_TURNS = 6

/** `mini`, reduced where size proves nothing, and with one or two trajectories per step, so that jobs have several steps. */
async function overridesOf(policyUrl: string): Promise<Record<string, unknown>> {
  const { recipe } = await loadRecipe({ name: 'mini', dirs: [RECIPES] })
  const [stage] = recipe.reinforce?.stages ?? []
  return {
    data: { train: { count: 4 }, heldOut: { count: 4 } },
    rft: { tasks: 3, rolloutsPerTask: GROUP_SIZE, batch: 1, maxTurns: MAX_TURNS },
    reinforce: {
      groupSize: GROUP_SIZE,
      stages: [{ ...stage, problemsPerIteration: 2, batch: 2, maxTurns: MAX_TURNS, until: { maxIterations: 1 } }],
    },
    evaluate: { tasks: 4, maxTurns: MAX_TURNS },
    // Includes new files, because the trace is one.
    scaffold: { submit: { capture: 'all' } },
    policyServer: { url: policyUrl },
  }
}

/** @throws Error if the run did not end well or in time, because there is nothing to judge then */
export async function playKillScenario(input: {
  world: PipelineWorld
  seed: number
  say: (line: string) => void
}): Promise<KillReport> {
  const { world, seed, say } = input
  const startedAt = Date.now()
  const trace = traceExecutions({ maxTurns: MAX_TURNS })
  const proxy = await startRecordingProxy({ target: world.stack.policyUrl, mark: trace.mark })
  const over = new AbortController()
  let kills: Promise<Killed> = Promise.resolve({ workers: [], trainers: [], missed: [] })
  try {
    const { workflowId, outcome } = await runRecipe({
      connection: world.connection,
      input: { recipe: 'mini', overrides: await overridesOf(proxy.url) },
      // Each kill of the worker costs about half a minute: a heartbeat must time out before another attempt may start.
      limitMs: STORY_MS,
      say,
      onStart: (handle) => {
        kills = plantKills({ world, proxy, handle, plan: planKills(seed), signal: over.signal, say })
      },
    })
    over.abort(new Error('the run was over before its moment came'))
    const killed = await withDeadline(kills, HANG_MS, 'the kills to be over')
    if (outcome.status !== 'completed') throw new Error(`The run did not finish: ${JSON.stringify(outcome)}`)
    const { run, stages } = outcome.result
    const policies = stages.map(({ policy }) => policy)
    const judgement = await judgeRun({ world, exchanges: proxy.exchanges, run, policies, workflowId, killed })
    const { workers, trainers } = killed
    return { seed, wallS: (Date.now() - startedAt) / 1000, workers, trainers, ...judgement }
  } finally {
    over.abort(new Error('the scenario is over'))
    await kills.catch(() => undefined)
    await proxy.close()
  }
}

/** Waits for all moments concurrently. Resolves when each has come or the signal aborted. */
async function plantKills(input: {
  world: PipelineWorld
  proxy: RecordingProxy
  handle: RunHandle<TrainAgentResult>
  plan: KillPlan
  signal: AbortSignal
  say: (line: string) => void
}): Promise<Killed> {
  const { world, proxy, handle, plan, signal, say } = input
  const { stack, store } = world
  const run = runNameOf({ connection: world.connection, workflowId: handle.workflowId })
  const killed: Killed = { workers: [], trainers: [], missed: [] }
  const follow = async <T>(what: 'worker' | 'trainer', stage: string, kill: Promise<T>, into: T[]): Promise<void> => {
    try {
      const done = await kill
      into.push(done)
      say(`       killed a ${what}: ${JSON.stringify(done)}`)
    } catch (error) {
      const cause = signal.aborted ? (signal.reason as Error) : (error as Error)
      killed.missed.push({ what, stage, why: cause.message })
    }
  }
  const killTrainerOf = async (kill: TrainerKill): Promise<TrainerKilled> =>
    killTrainerAt({ kill, run: await run, store, signal })
  await Promise.all([
    ...plan.workers.map((kill) =>
      follow('worker', kill.stage, killWorkerAt({ kill, stack, proxy, signal }), killed.workers),
    ),
    ...plan.trainers.map((kill) => follow('trainer', kill.stage, killTrainerOf(kill), killed.trainers)),
  ])
  return killed
}
