/** One seed: a run in which its faults strike, judged and compared with the run without. */
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomFrom } from '../../../src/adapters/datasets/synthetic/random.ts'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import { type RunHandle, type RunOutcome, startEvaluation, startTraining } from '../../../src/client/index.ts'
import type { ChaosStack } from './chaos-stack.ts'
import type { Cell, SeedPlan } from './cells.ts'
import { overridesOf } from './chaos-recipe.ts'
import { compareRuns } from './compare-runs.ts'
import { listTrainingJobs } from '../../../src/stack/stop-training-jobs.ts'
import type { Expectation } from './faults.ts'
import { judgeChaos } from './judge-chaos.ts'
import { digestRun, type RunDigest } from './run-digest.ts'

export interface PlayedCell {
  fault: string
  phase: string
  /** False where the run was over before the moment came. */
  struck: boolean
}

export interface SeedReport {
  seed: number
  kind: SeedPlan['kind']
  cells: PlayedCell[]
  wallS: number
  episodes: number
  turns: number
  sampledAgain: number
  violations: string[]
}

/** Runs without a fault, by what they depend on: each is played once. */
export type QuietRuns = Map<string, RunDigest>

/** Room for two outages. */
const LIMIT_MS = { evaluation: 6 * 60_000, training: 8 * 60_000 } as const
/** Runs differ by this many recipe seeds. */
const VARIATIONS = 8
const RECIPES = fileURLToPath(new URL('../../../recipes', import.meta.url))

export async function playSeed(input: {
  stack: ChaosStack
  plan: SeedPlan
  quiet: QuietRuns
  say: (line: string) => void
}): Promise<SeedReport> {
  const { stack, plan, quiet, say } = input
  const { seed, kind } = plan
  const recipeSeed = 1 + (seed % VARIATIONS)
  const key = `${kind} ${recipeSeed}`
  let digest = quiet.get(key)
  if (digest === undefined) {
    const played = await playRun({ stack, kind, recipeSeed, cells: [], seed, say })
    if (played.violations.length > 0) throw new Error(`The run without a fault: ${played.violations.join('; ')}`)
    digest = played.digest
    quiet.set(key, digest)
  }
  const startedMs = Date.now()
  if (plan.cells.some(({ fault }) => fault.needsSecondHost) && stack.engines.b === null) await stack.addHost()
  try {
    const hurt = await playRun({ stack, kind, recipeSeed, cells: plan.cells, seed, say })
    const expects = plan.cells.map(({ fault }) => fault.expects).find((one) => one !== 'identical') ?? 'identical'
    const violations = [...hurt.violations, ...compareRuns({ quiet: digest, hurt: hurt.digest, expects })]
    const { episodes, turns, sampledAgain, struck } = hurt
    const cells = plan.cells.map(({ fault, phase }, index) => ({ fault: fault.name, phase, struck: index < struck }))
    return { seed, kind, cells, wallS: (Date.now() - startedMs) / 1000, episodes, turns, sampledAgain, violations }
  } finally {
    if (plan.cells.some(({ fault }) => fault.needsSecondHost)) await stack.stopWorker('sandbox-b')
  }
}

interface PlayedRun {
  digest: RunDigest
  episodes: number
  turns: number
  sampledAgain: number
  struck: number
  violations: string[]
}

async function playRun(input: {
  stack: ChaosStack
  kind: SeedPlan['kind']
  recipeSeed: number
  seed: number
  cells: readonly Cell[]
  say: (line: string) => void
}): Promise<PlayedRun> {
  const { stack, kind, recipeSeed, seed, cells, say } = input
  const handle = await startRun(stack, kind, recipeSeed)
  const over = new AbortController()
  const strikes = strikeAll({ stack, cells, seed, workflowId: handle.workflowId, signal: over.signal, say })
  // What goes wrong there is told at the end, where it is waited for.
  strikes.catch(() => undefined)
  const watching = kind === 'training' ? reportJobs(stack, over.signal) : Promise.resolve()
  const expects = cells.map(({ fault }) => fault.expects).find((one) => one !== 'identical') ?? 'identical'
  try {
    const { run, outcome } = await endOf(handle, LIMIT_MS[kind])
    over.abort(new Error('the run is over'))
    const struck = await strikes
    await stack.settle()
    if (run === null)
      return { ...NOTHING, struck, violations: [`the run ended without a name: ${JSON.stringify(outcome)}`] }
    const isWhole = outcome.status === 'completed'
    const judged = await judgeChaos({ stack, run, strikes: struck, isWhole })
    const violations = [...outcomeFaults(outcome, expects, struck), ...judged.violations]
    return { ...judged, violations, struck, digest: await digestRun(stack.store, run) }
  } finally {
    over.abort(new Error('the run is over'))
    await strikes.catch(() => undefined)
    await watching
  }
}

const NOTHING: PlayedRun = {
  digest: { episodes: [], ledgers: [] },
  episodes: 0,
  turns: 0,
  sampledAgain: 0,
  struck: 0,
  violations: [],
}

async function startRun(
  stack: ChaosStack,
  kind: SeedPlan['kind'],
  seed: number,
): Promise<Pick<RunHandle<{ run: string }>, 'workflowId' | 'watch' | 'connection'>> {
  const { connection, policyUrl } = stack
  const recipe = kind === 'evaluation' ? 'nightly' : 'mini'
  const shipped = await loadRecipe({ name: recipe, dirs: [RECIPES] })
  const stage = shipped.recipe.reinforce?.stages[0]
  const request = { connection, recipe, overrides: overridesOf({ kind, seed, policyUrl, stage }), fresh: true }
  return kind === 'evaluation' ? startEvaluation(request) : startTraining(request)
}

/** Sets one trap after the other. @returns how many faults struck */
async function strikeAll(input: {
  stack: ChaosStack
  cells: readonly Cell[]
  seed: number
  workflowId: string
  signal: AbortSignal
  say: (line: string) => void
}): Promise<number> {
  const { stack, cells, seed, workflowId, signal, say } = input
  const random = randomFrom(`chaos/${seed}/strike`)
  let struck = 0
  for (const { fault, phase, count } of cells) {
    try {
      const { over } = await stack.visits.set(
        {
          phase,
          count,
          ...(fault.matches === undefined ? {} : { matches: fault.matches }),
          strike: (visit) => {
            say(`       ${fault.name} at ${phase} of ${visit.episode ?? visit.container ?? visit.process}`)
            return fault.strike({ stack, random, workflowId, visit })
          },
        },
        signal,
      )
      struck += 1
      await over
    } catch (error) {
      if (!signal.aborted) throw error
      break
    }
  }
  return struck
}

/** A training job has no hook of ours: it is seen from outside. */
async function reportJobs(stack: ChaosStack, signal: AbortSignal): Promise<void> {
  const seen = new Set<number>()
  while (!signal.aborted) {
    for (const { pid } of listTrainingJobs(stack)) {
      if (seen.has(pid)) continue
      seen.add(pid)
      // Python has begun to import; the job itself comes a little later.
      await sleep(1_500)
      await stack.visits.report({ phase: 'training', process: 'trainer', episode: null, container: null, key: null })
    }
    await sleep(200)
  }
}

async function endOf(
  handle: Pick<RunHandle<{ run: string }>, 'watch' | 'workflowId' | 'connection'>,
  limitMs: number,
): Promise<{ run: string | null; outcome: RunOutcome<{ run: string }> }> {
  let run: string | null = null
  let phase = 'nothing'
  for await (const event of handle.watch({ intervalMs: 400, signal: AbortSignal.timeout(limitMs) })) {
    if (event.kind === 'closed')
      return { run: event.outcome.status === 'completed' ? event.outcome.result.run : run, outcome: event.outcome }
    if (event.kind !== 'progress') continue
    run = event.progress?.run ?? run
    phase = event.progress?.phase ?? phase
  }
  await handle.connection.client.workflow.getHandle(handle.workflowId).terminate('chaos: out of time')
  return { run, outcome: { status: 'timed-out', message: `not over after ${limitMs / 1000} s, it was ${phase}` } }
}

function outcomeFaults(outcome: RunOutcome<unknown>, expects: Expectation, struck: number): string[] {
  if (outcome.status === 'completed') return []
  if (expects === 'cancelled' && struck > 0 && outcome.status === 'cancelled') return []
  return [`the run ended as ${JSON.stringify(outcome)}`]
}
