/** Reads an episode's executions from the server. */
import { readPlacements } from '../activities/episode/claim-placement.ts'
import { readUnlessCorrupt } from '../activities/runtime/stored-records.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { runKeys } from '../contracts/keys.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { EpisodeRow, HistoryPage } from './pages.types.ts'
import { NO_SERVER, type RunSource } from './run-source.ts'
import type { RunClaim } from '../contracts/run-records.types.ts'

/** An episode has one execution, and one more for each continuation of its run that executed it again. */
const MAX_EXECUTIONS = 4
/** Refill rounds, which replace groups without a spread; recipes allow fewer. */
const MAX_REFILLS = 20

export async function readHistoryPage(
  { store, source }: { store: ArtifactStore; source: RunSource | null },
  row: EpisodeRow,
): Promise<HistoryPage> {
  const { episode } = row
  const fromRecords = (why: string): HistoryPage => ({
    kind: 'history',
    episode,
    shows: 'records',
    why,
    atMs: Date.now(),
    executions: [],
  })
  if (source === null) return fromRecords(NO_SERVER)
  const [ids, placements] = await Promise.all([idsOf(store, row), readPlacements(store, episode)])
  const runIds = [...new Set(placements.map(({ ownerRun }) => ownerRun))].filter((id) => id !== '')
  const answer = await source.history({ workflowIds: ids, runIds: runIds.slice(-MAX_EXECUTIONS) })
  if (!answer.ok) return fromRecords(answer.why)
  return { kind: 'history', episode, shows: 'server', why: null, atMs: Date.now(), executions: answer.value }
}

/** Ids that the episode's workflow may have: in its rollout, or in one of the refills. */
async function idsOf(
  store: ArtifactStore,
  { episode, stage, iteration, taskId, index }: EpisodeRow,
): Promise<string[]> {
  const run = episode.split('/')[0] ?? ''
  const [claim, refills] = await Promise.all([
    readUnlessCorrupt<RunClaim>(store, runKeys.claim(run)),
    countRefills(store, { run, stage, iteration }),
  ])
  const root = claim?.kind === 'eval' ? workflowIds.evaluation(run) : workflowIds.train(run)
  const rollout = workflowIds.rollout(root, stage, iteration)
  const rollouts = [rollout, ...Array.from({ length: refills }, (_, at) => workflowIds.refill(rollout, at + 1))]
  return rollouts.map((one) => workflowIds.episode(workflowIds.group(one, taskId), index))
}

async function countRefills(
  store: ArtifactStore,
  { run, stage, iteration }: { run: string; stage: string; iteration: number },
): Promise<number> {
  for (let round = 1; round <= MAX_REFILLS; round++) {
    if ((await store.read(runKeys.refill(run, stage, iteration, round))) === null) return round - 1
  }
  return MAX_REFILLS
}
