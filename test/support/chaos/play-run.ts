/** One run with its faults: started, struck, started again if a fault has ended it, and judged. */
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../../../src/adapters/datasets/synthetic/compose.ts'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import { type RunHandle, type RunOutcome, startEvaluation, startTraining } from '../../../src/client/index.ts'
import { makeRunHandle } from '../../../src/client/watch-run.ts'
import { QUEUES, workflowIds } from '../../../src/contracts/workflow-ids.ts'
import { listTrainingJobs } from '../../../src/stack/down.ts'
import type { Cell, SeedPlan } from './cells.ts'
import { overridesOf } from './chaos-recipe.ts'
import type { ChaosStack } from './chaos-stack.ts'
import { judgeChaos } from './judge-chaos.ts'
import { noteRestart, type Restart } from './judge-restarts.ts'
import { digestRun, type RunDigest } from './run-digest.ts'

export interface PlayRunInput {
  stack: ChaosStack
  kind: SeedPlan['kind']
  recipeSeed: number
  seed: number
  /** `count`: which visit is struck, from 1. */
  cells: readonly { cell: Cell; count: number }[]
  random: Random
  /** Limit on the total time of the first execution, as an operator may set it; null for none. */
  limitMs: number | null
  /** Plays the rollout in parts. @default false */
  inParts?: boolean
  /** Larger groups, to compare replacements with. @default false */
  further?: boolean
  say: (line: string) => void
}

export interface PlayedRun {
  run: string
  digest: RunDigest
  episodes: number
  turns: number
  sampledAgain: number
  restarts: number
  struck: Cell[]
  violations: string[]
}

/** Time for two outages and two endings on a busy machine. */
const LIMIT_MS = { evaluation: 25 * 60_000, training: 40 * 60_000 } as const
const RECIPES = fileURLToPath(new URL('../../../recipes', import.meta.url))
let runs = 0

export async function playRun(input: PlayRunInput): Promise<PlayedRun> {
  const { stack, kind, cells } = input
  const run = `chaos-${String(++runs).padStart(4, '0')}-x`
  const workflowId = kind === 'evaluation' ? workflowIds.evaluation(run) : workflowIds.train(run)
  const restarts: Restart[] = []
  const over = new AbortController()
  const endings = new Endings()
  const strikes = strikeAll({ ...input, run, workflowId, signal: over.signal, endings })
  // Its errors are reported at the end, where it is awaited.
  strikes.catch(() => undefined)
  const watching = kind === 'training' ? reportJobs(stack, over.signal) : Promise.resolve()
  try {
    const disarm = (): void => over.abort(new Error('the run ended before the moment came'))
    const outcome = await playToEnd({ ...input, run, workflowId, restarts, endings, disarm })
    over.abort(new Error('the run is over'))
    const struck = await strikes
    await stack.settle()
    const isWhole = outcome.status === 'completed'
    const wakesLate = cells.some(({ cell }) => cell.fault.wakesLate === true)
    const judged = await judgeChaos({ stack, run, strikes: cells.length, wakesLate, isWhole, restarts })
    const violations = [...outcomeFaults(outcome, struck), ...judged.violations]
    return { ...judged, run, violations, struck, restarts: restarts.length, digest: await digestRun(stack.store, run) }
  } finally {
    over.abort(new Error('the run is over'))
    await strikes.catch(() => undefined)
    await watching
  }
}

// Starts and restarts ----------------------------------------------------------------------------------------

/** Faults that end a run. While one is at work nothing is concluded from the run's state; afterwards the run is started again. */
class Endings {
  #rung = new AbortController()
  #atWork: Promise<unknown> | null = null
  #due = false

  /** Aborts when the run must be started again. */
  get signal(): AbortSignal {
    return this.#rung.signal
  }

  begin(over: Promise<unknown>): void {
    this.#atWork = over
    const ring = (): void => {
      this.#atWork = null
      this.#due = true
      this.#rung.abort()
    }
    over.then(ring, ring)
  }

  /** Waits for the fault that is at work. @returns whether the run must be started again, once for each fault */
  async isDue(): Promise<boolean> {
    await this.#atWork?.catch(() => undefined)
    // The abort happens in a later step of the same promise.
    await sleep(0)
    if (!this.#due) return false
    this.#due = false
    this.#rung = new AbortController()
    return true
  }
}

interface Playing extends PlayRunInput {
  run: string
  workflowId: string
  restarts: Restart[]
  endings: Endings
  /** Removes the traps, so that nothing more strikes. */
  disarm: () => void
}

type Followed = Pick<RunHandle<unknown>, 'watch' | 'attached'>

async function playToEnd(input: Playing): Promise<RunOutcome<unknown>> {
  const { stack, kind, workflowId, endings, cells, say, limitMs, disarm } = input
  const until = Date.now() + LIMIT_MS[kind]
  // A reset ends nothing by itself: a run that fails later because of it is started again like any other.
  let mayFail = cells.filter(({ cell }) => cell.fault.name.startsWith('reset:')).length
  let handle: Followed = await startFirst(input)
  let isLimited = limitMs !== null
  for (;;) {
    let lost: unknown = null
    const end = await endOf(handle, { until, signal: endings.signal }).catch((error: unknown) => {
      lost = error
      return null
    })
    const isDue = await endings.isDue()
    // While its database is lost, the server knows no run of this name.
    if (!isDue && lost !== null) throw lost
    if (!isDue && end === null) return endLate(stack, workflowId, LIMIT_MS[kind])
    // The limit on the first execution may pass before the struck phase is reached, or after the strike was given up: the run is then
    // started again, and its cell is missed.
    const cameEarly = !isDue && end?.status === 'timed-out' && isLimited
    if (cameEarly) disarm()
    else if (!isDue && end !== null && (end.status !== 'failed' || input.restarts.length === 0 || mayFail-- <= 0)) {
      return end
    }
    // The fault struck late, at a phase that stops no process, so the run was over before its limit. The client did not start it and
    // cannot join it.
    if (end?.status === 'completed' && isLimited) return end
    if (end !== null) say(`       ended: ${JSON.stringify(end).slice(0, 200)}`)
    await stack.settle()
    input.restarts.push(await noteRestart(stack, input.run))
    handle = await start(input)
    if (!handle.attached) isLimited = false
    say(`       started again${handle.attached ? ', joined' : ''}`)
  }
}

async function requestOf({ stack, kind, recipeSeed, run, cells, inParts = false, further = false }: Playing) {
  const { connection, policyUrls: all } = stack
  const hasReplica = cells.some(({ cell }) => cell.fault.needsReplica)
  const policyUrls = hasReplica ? [all.policy, all['policy-b']] : [all.policy]
  const recipe = kind === 'evaluation' ? 'nightly' : 'mini'
  const shipped = await loadRecipe({ name: recipe, dirs: [RECIPES] })
  const stage = shipped.recipe.reinforce?.stages[0]
  return {
    connection,
    recipe,
    overrides: overridesOf({ kind, seed: recipeSeed, policyUrls, stage, inParts, further }),
    run,
  }
}

/** Starts the run with the product's own client, the first time and later. */
async function start(input: Playing): Promise<Followed> {
  const request = await requestOf(input)
  return input.kind === 'evaluation' ? startEvaluation(request) : startTraining(request)
}

async function startFirst(input: Playing): Promise<Followed> {
  const { limitMs, stack, kind, workflowId } = input
  if (limitMs === null) return start(input)
  // The client sets no such limit, but schedules and operators may.
  const { connection, ...request } = await requestOf(input)
  await connection.client.workflow.start(kind === 'evaluation' ? 'evaluate' : 'trainAgent', {
    workflowId,
    taskQueue: QUEUES.control,
    args: [request],
    workflowExecutionTimeout: limitMs,
  })
  return makeRunHandle({ connection: stack.connection, workflowId, attached: false, ownsConnection: false })
}

/** @returns null if the time is over or the run must be started again */
async function endOf(
  handle: Followed,
  { until, signal }: { until: number; signal: AbortSignal },
): Promise<RunOutcome<unknown> | null> {
  const limit = AbortSignal.timeout(Math.max(1, until - Date.now()))
  // As often as a user's screen polls and not more: each poll makes many calls and queries, which the server and workers answer
  // instead of playing.
  for await (const event of handle.watch({ signal: AbortSignal.any([signal, limit]) })) {
    if (event.kind === 'closed') return event.outcome
  }
  return null
}

async function endLate({ connection }: ChaosStack, workflowId: string, limitMs: number): Promise<RunOutcome<unknown>> {
  const { progress } = await makeRunHandle({ connection, workflowId, attached: true, ownsConnection: false })
    .progress()
    .then((found) => ({ progress: found?.phase ?? 'of unknown phase' }))
  const handle = connection.client.workflow.getHandle(workflowId)
  await handle.terminate('chaos: out of time').catch(() => undefined)
  return { status: 'timed-out', message: `not over after ${limitMs / 1000} s, it was ${progress}` }
}

function outcomeFaults(outcome: RunOutcome<unknown>, struck: readonly Cell[]): string[] {
  if (outcome.status === 'completed') return []
  const mayCancel = struck.some(({ fault }) => fault.expects === 'cancelled')
  return mayCancel && outcome.status === 'cancelled' ? [] : [`the run ended as ${JSON.stringify(outcome)}`]
}

// Strikes -----------------------------------------------------------------------------------------------------------

/** Sets one trap after another. @returns the cells whose fault was seen to strike */
async function strikeAll(
  input: PlayRunInput & { run: string; workflowId: string; signal: AbortSignal; endings: Endings },
): Promise<Cell[]> {
  const { stack, cells, random, run, workflowId, signal, endings, say } = input
  const struck: Cell[] = []
  for (const { cell, count } of cells) {
    const { fault, phase } = cell
    const isEnding = fault.expects === 'restarted'
    try {
      const { over, seen } = await stack.visits.set(
        {
          phase,
          count,
          ...(fault.matches === undefined ? {} : { matches: fault.matches }),
          strike: async (visit) => {
            say(`       ${fault.name} at ${phase} ${count} of ${visit.episode ?? visit.container ?? visit.process}`)
            const work = fault.strike({ stack, random, run, workflowId, visit })
            if (isEnding) endings.begin(work.then((strike) => strike.over))
            return work
          },
        },
        signal,
      )
      await over
      if (await seen()) struck.push(cell)
    } catch (error) {
      if (!signal.aborted) throw error
      break
    }
  }
  return struck
}

/** A training job has no hook of the harness, so it is observed from outside. */
async function reportJobs(stack: ChaosStack, signal: AbortSignal): Promise<void> {
  const seen = new Set<number>()
  while (!signal.aborted) {
    for (const { pid } of listTrainingJobs(stack)) {
      if (seen.has(pid)) continue
      seen.add(pid)
      // Python has begun to import; the job itself starts a little later.
      await sleep(1_500)
      await stack.visits.report({ phase: 'training', process: 'trainer', episode: null, container: null, key: null })
    }
    await sleep(200)
  }
}
