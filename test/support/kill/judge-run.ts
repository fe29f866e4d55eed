/** Checks the invariants after kills, from records, the policy server's requests, histories and the machine. */
import { checkLedger } from '../../../src/activities/training/check-ledger.ts'
import type { EpisodeIdentity, EpisodeRecord } from '../../../src/contracts/episodes.types.ts'
import { episodeId } from '../../../src/contracts/keys.ts'
import type { PipelineWorld } from '../pipeline-world.ts'
import type { Exchange } from '../recording-proxy.ts'
import { attemptsOf, fetchRunHistories, type RunHistory } from '../run-histories.ts'
import { batchesOf, type BatchManifest, episodesOf, leftBehind, recipeOf } from '../run-records.ts'
import { auditTurns, type TurnAudit } from './audit-turns.ts'
import type { Killed } from './kill-scenario.ts'
import { replayEpisodes } from './replay-episodes.ts'
import { trainedSteps } from './trained-steps.ts'

export interface RunJudgement {
  run: string
  episodes: number
  turns: number
  /** Optimizer steps of the whole run. */
  steps: number
  /** Samples that were lost before their record and requested again; this is allowed. */
  sampledAgain: number
  /** Commands of all episodes, each proven to have run once. */
  commandsCounted: number
  /** Episodes that a kill affected: one of their activities needed another attempt. */
  met: number
  /** Episodes whose commands were played again, once each, in a fresh sandbox. */
  replayed: number
  /** Empty if everything held. */
  violations: string[]
}

export const GROUP_SIZE = 4
const MAX_REPLAYED = 6

export async function judgeRun(input: {
  world: PipelineWorld
  exchanges: readonly Exchange[]
  run: string
  /** Versions of the stages, in order. */
  policies: string[]
  workflowId: string
  killed: Killed
}): Promise<RunJudgement> {
  const { world, exchanges, run, policies, workflowId, killed } = input
  const { store, connection } = world
  // First, because the replays below create containers of their own.
  const left = await leftBehind(world, run)
  const recipe = await recipeOf(store, run)
  const episodes = await episodesOf(store, run)
  const batches = await batchesOf(store, run)
  const histories = (await fetchRunHistories(connection.client, workflowId)).filter(({ type }) => type === 'episode')
  const met = episodesMet(histories)
  const audit = await auditTurns(store, episodes, exchanges, { isTraced: true })
  const ledger = await checkLedger({ store, recipe }, run)
  const replayed = chooseForReplay(episodes, met)
  const differences = await replayEpisodes(world, recipe, replayed)
  const steps = batches.reduce((sum, { minibatches }) => sum + minibatches.length, 0)
  return {
    run,
    episodes: episodes.length,
    turns: audit.turns,
    steps,
    sampledAgain: audit.sampledAgain,
    commandsCounted: audit.commandsCounted,
    met: met.size,
    replayed: replayed.length,
    violations: [
      ...killFaults(killed, met, batches),
      ...ledger.mismatches.map((mismatch) => `ledger: ${JSON.stringify(mismatch)}`),
      ...unequal('episodes of the ledger', ledger.totals.episodes, episodes.length),
      ...episodeFaults(episodes, histories),
      ...againFaults(audit, killed, met),
      ...audit.violations,
      ...differences,
      ...stepFaults(await trainedSteps(store, policies), steps),
      ...left.map((what) => `left behind: ${what}`),
    ],
  }
}

function episodesMet(histories: readonly RunHistory[]): Set<string> {
  const met = histories.filter((history) => attemptsOf(history).some((attempt) => attempt > 1))
  return new Set(met.map(episodeOf))
}

/** The workflow's own input names the episode. */
function episodeOf({ history }: RunHistory): string {
  const started = history.events[0]?.workflowExecutionStartedEventAttributes
  const data = started?.input?.payloads?.[0]?.data ?? new Uint8Array()
  return episodeId(JSON.parse(Buffer.from(data).toString('utf8')) as EpisodeIdentity)
}

/** Without these kills the scenario proves nothing. A stage without a batch has no trainer to kill. */
function killFaults(
  { workers, trainers, missed }: Killed,
  met: ReadonlySet<string>,
  batches: BatchManifest[],
): string[] {
  const hadBatch = (stage: string): boolean => batches.some(({ key }) => key.includes(`/${stage}/`))
  const faults = missed
    .filter(({ what, stage }) => what === 'worker' || hadBatch(stage))
    .map(({ what, stage, why }) => `the ${what} of ${stage} was not killed: ${why}`)
  for (const { stage } of workers) {
    const isMet = [...met].some((episode) => episode.split('/')[1] === stage)
    if (!isMet) faults.push(`no episode of ${stage} was under way when the worker was killed`)
  }
  if (!trainers.some(({ isInside }) => isInside)) faults.push('no trainer was killed amid its job')
  return faults
}

function episodeFaults(episodes: readonly EpisodeRecord[], histories: readonly RunHistory[]): string[] {
  const lost = episodes.filter(({ disposition }) => disposition === 'infra')
  const spare = episodes.filter(({ index }) => index >= GROUP_SIZE)
  const placed = histories.filter((history) => attemptsOf(history, 'openSandbox').length !== 1)
  return [
    ...lost.map(({ episode, failure }) => `${episode} was lost: ${failure}`),
    ...spare.map(({ episode }) => `${episode} replaces a lost episode`),
    ...placed.map(({ workflowId }) => `${workflowId} needed another sandbox`),
    ...unequal('episode workflows', histories.length, episodes.length),
  ]
}

/** A kill may cost each affected episode the one sample in progress. */
function againFaults({ sampledAgain }: TurnAudit, { workers }: Killed, met: ReadonlySet<string>): string[] {
  const allowed = met.size * workers.length
  return sampledAgain <= allowed ? [] : [`${sampledAgain} samples were repeated, the kills explain ${allowed}`]
}

/** Episodes that a kill affected come first; among them, those with a patch. */
function chooseForReplay(episodes: readonly EpisodeRecord[], met: ReadonlySet<string>): EpisodeRecord[] {
  const weight = ({ episode, patchBytes }: EpisodeRecord): number =>
    (met.has(episode) ? 2 : 0) + (patchBytes > 0 ? 1 : 0)
  return episodes.toSorted((a, b) => weight(b) - weight(a)).slice(0, MAX_REPLAYED)
}

/** Steps must be 1 … planned over all jobs, without gap or repetition. */
function stepFaults(trained: readonly number[], planned: number): string[] {
  const expected = Array.from({ length: planned }, (_, index) => index + 1)
  return trained.join() === expected.join() ? [] : [`steps ${trained.join()} were trained, ${planned} were planned`]
}

function unequal(what: string, found: number, expected: number): string[] {
  return found === expected ? [] : [`${found} ${what}, expected ${expected}`]
}
