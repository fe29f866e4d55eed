/** One seed: a run in which its faults strike, judged and compared with the run without faults. */
import { setTimeout as sleep } from 'node:timers/promises'
import { randomFrom } from '../../../src/adapters/datasets/synthetic/compose.ts'
import { type ChaosStack, STORE_PATIENCE_S } from './chaos-stack.ts'
import { type Cell, type SeedPlan, visitCounts } from './cells.ts'
import { compareRuns, isWhole } from './compare-runs.ts'
import type { Expectation } from './faults.ts'
import type { Visit } from './phases.ts'
import { type PlayedRun, playRun } from './play-run.ts'
import { retrain } from './retrain.ts'
import type { EpisodeDigest, JobDigest, RunDigest } from './run-digest.ts'

export interface PlayedCell {
  fault: string
  phase: string
  /** False if the moment never came or the fault's effect was not seen. */
  struck: boolean
}

export interface SeedReport {
  seed: number
  /** The commit at which it was played, if one table has results of several. */
  commit?: string
  kind: SeedPlan['kind']
  cells: PlayedCell[]
  wallS: number
  episodes: number
  turns: number
  sampledAgain: number
  /** Number of restarts of the run. */
  restarts: number
  violations: string[]
}

interface QuietRun {
  digest: RunDigest
  visits: readonly Visit[]
  wallMs: number
}

const PLACED_MS = 60_000

/** Runs without faults, by what they depend on; each is played once. */
export type QuietRuns = Map<string, QuietRun>

/** Runs have this many different recipe seeds; runs in parts, which take twice as long, have one. */
const VARIATIONS = 8
/** Maximum runs of a cell: if its fault missed, it strikes earlier in the next run. */
const TRIES = 3

export async function playSeed(input: {
  stack: ChaosStack
  plan: SeedPlan
  quiet: QuietRuns
  say: (line: string) => void
}): Promise<SeedReport> {
  const { stack, plan } = input
  const { seed, kind } = plan
  const startedMs = Date.now()
  const report: SeedReport = {
    seed,
    kind,
    cells: plan.cells.map(({ fault, phase }) => ({ fault: fault.name, phase, struck: false })),
    wallS: 0,
    episodes: 0,
    turns: 0,
    sampledAgain: 0,
    restarts: 0,
    violations: [],
  }
  let left = plan.cells
  for (let tries = 1; left.length > 0 && report.violations.length === 0 && tries <= TRIES; tries++) {
    const { hurt, violations } = await playCells({ ...input, cells: left })
    report.violations.push(...violations)
    for (const part of ['episodes', 'turns', 'sampledAgain', 'restarts'] as const) report[part] += hurt[part]
    for (const { fault, phase } of hurt.struck) {
      const cell = report.cells.find((one) => one.fault === fault.name && one.phase === phase)
      if (cell !== undefined) cell.struck = true
    }
    left = left.filter((cell) => !hurt.struck.includes(cell)).map((cell) => ({ ...cell, nth: cell.nth / 4 }))
  }
  await stack.clearRuns()
  return { ...report, wallS: (Date.now() - startedMs) / 1000 }
}

/** Plays one run with these faults and compares it with the run without faults, which is always played in containers. */
export async function playCells(input: {
  stack: ChaosStack
  plan: Pick<SeedPlan, 'seed' | 'kind' | 'inParts'>
  cells: readonly Cell[]
  quiet: QuietRuns
  say: (line: string) => void
}): Promise<{ hurt: PlayedRun; violations: string[] }> {
  const { stack, plan, cells, say } = input
  const { seed, kind, inParts } = plan
  const recipeSeed = 1 + (inParts ? 0 : seed % VARIATIONS)
  const same = { stack, kind, inParts, recipeSeed, seed, say }
  const undisturbed = await quietRun(same, input.quiet)
  const needsSecondHost = cells.some(({ fault }) => fault.needsSecondHost)
  if (needsSecondHost && stack.engines.b === null) await stack.addHost()
  const firstHostIsBack = needsSecondHost ? await startOnSecondHost(stack) : undefined
  try {
    const counts = visitCounts(cells, undisturbed.visits)
    await stack.usePlant(true)
    await stack.placeSandboxes(stack.sandboxes)
    await stack.setStorePatience(
      Math.min(STORE_PATIENCE_S, ...cells.map(({ fault }) => fault.storePatienceS ?? STORE_PATIENCE_S)),
    )
    const hurt = await playRun({
      ...same,
      cells: cells.map((cell, index) => ({ cell, count: counts[index] ?? 1 })),
      limitMs: cells.some(({ fault }) => fault.limitsRun) ? undisturbed.wallMs * 1.5 + 10_000 : null,
      random: randomFrom(`chaos/${seed}/strike`),
    })
    await stack.usePlant(false)
    const { digest: quiet } = undisturbed
    const expects = expectationOf(cells)
    const comparison = { quiet, hurt: hurt.digest, expects }
    const further = await furtherEpisodes(comparison, () => quietRun({ ...same, further: true }, input.quiet))
    const retrained = isWhole(comparison) || expects !== 'restarted' ? new Map() : await retrainAll(stack, hurt)
    return { hurt, violations: [...hurt.violations, ...compareRuns({ ...comparison, ...further, retrained })] }
  } finally {
    await firstHostIsBack?.()
    if (needsSecondHost) await stack.stopWorker('sandbox-b')
  }
}

/**
 * The server chooses the host that is offered an episode, and may always choose the first one. So its worker stays away until the
 * second host has an episode.
 * @returns a promise of the first host's return, in a function so that it is not awaited here
 */
async function startOnSecondHost(stack: ChaosStack): Promise<() => Promise<void>> {
  const earlier = stack.visits.made.length
  await stack.stopWorker('sandbox')
  const isPlaced = (): boolean => stack.visits.made.slice(earlier).some(({ process }) => process === 'sandbox-b')
  const back = (async () => {
    for (const deadline = Date.now() + PLACED_MS; !isPlaced() && Date.now() < deadline; ) await sleep(100)
    await stack.startWorker('sandbox')
  })()
  // Its error is reported where it is awaited.
  back.catch(() => undefined)
  return () => back
}

/** The expectation that permits most. */
export function expectationOf(cells: readonly Pick<Cell, 'fault'>[]): Expectation {
  const all = cells.map(({ fault }) => fault.expects)
  return (['cancelled', 'restarted', 'replaced'] as const).find((one) => all.includes(one)) ?? 'identical'
}

async function quietRun(
  input: Pick<Parameters<typeof playRun>[0], 'stack' | 'kind' | 'inParts' | 'recipeSeed' | 'seed' | 'say'> & {
    further?: boolean
  },
  quiet: QuietRuns,
): Promise<QuietRun> {
  const { stack, kind, inParts, recipeSeed, further = false } = input
  const key = `${kind} ${recipeSeed}${inParts ? ' in parts' : ''}${further ? ' further' : ''}`
  const known = quiet.get(key)
  if (known !== undefined) return known
  await stack.placeSandboxes('containers')
  const before = stack.visits.made.length
  const startedMs = Date.now()
  const played = await playRun({ ...input, further, cells: [], limitMs: null, random: randomFrom(key) })
  if (played.violations.length > 0) throw new Error(`The run without a fault: ${played.violations.join('; ')}`)
  const visits = stack.visits.made.slice(before)
  const found = { digest: played.digest, visits, wallMs: Date.now() - startedMs }
  quiet.set(key, found)
  return found
}

/** Episodes with indexes that the undisturbed run does not reach, if this run has any. */
async function furtherEpisodes(
  { quiet, hurt }: { quiet: RunDigest; hurt: RunDigest },
  play: () => Promise<QuietRun>,
): Promise<{ further?: ReadonlyMap<string, EpisodeDigest> }> {
  const known = new Set(quiet.episodes.map(({ id }) => id))
  if (hurt.episodes.every(({ id }) => known.has(id))) return {}
  const { digest } = await play()
  return { further: new Map(digest.episodes.map((episode) => [episode.id, episode])) }
}

async function retrainAll(
  stack: ChaosStack,
  { run, digest }: PlayedRun,
): Promise<Map<string, Pick<JobDigest, 'steps' | 'weights'>>> {
  const again = new Map<string, Pick<JobDigest, 'steps' | 'weights'>>()
  for (const { id, weights } of digest.jobs) {
    if (weights !== null) again.set(id, await retrain({ stack, run, job: id }))
  }
  return again
}
