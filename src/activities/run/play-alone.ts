import { Context } from '@temporalio/activity'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import { requireWhole } from './run-names.ts'
import type { Player, PlayerRecord, RunClaim } from '../../contracts/run-records.types.ts'

/** What the Temporal server knows about roots. */
export interface RootRegistry {
  /**
   * Whether a workflow is open and plays the run, or has not said yet what it plays.
   * @throws LonghaulError `Temporal.Unreachable`, because a run may be played twice if the answer is guessed
   */
  isPlaying(input: { run: string; workflowId: string }): Promise<boolean>
  /** An open root with the run's name in the server's index, which lags. Null if there is none other than the one that asks. */
  findListed(input: { run: string; asking: string }): Promise<string | null>
}

export interface PlayAloneInput {
  store: ArtifactStore
  roots: RootRegistry
  run: string
  player: Player
}

/**
 * Makes this execution the one that plays the run. Two roots of one run would wait for each other's children, and the one that ends
 * first would release the policies and end the engines of the other. Of two that ask at the same moment one gets the next number, and
 * the other finds it there.
 * @throws LonghaulError `Config.Invalid` if another workflow plays the run, or if it is being removed; `Temporal.Unreachable`
 */
export async function playAlone(input: PlayAloneInput): Promise<void> {
  const { store, run, player } = input
  await becomeLast(input)
  // A removal looks for the last player once its mark stands. So it finds this one, or this one finds its mark, or what it has removed.
  await requireWhole(store, run)
  const last = await lastPlayer(store, run)
  if (last !== null && isSame(last, player) && (await store.readRecord(runKeys.claim(run))) !== null) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Run ${run} was removed, or another workflow took it, while it was being started. Start it again`,
    details: { run },
  })
}

async function becomeLast({ store, roots, run, player }: PlayAloneInput): Promise<void> {
  let last = await lastPlayer(store, run)
  if (last === null || isSame(last, player)) return
  const listed = await roots.findListed({ run, asking: player.workflowId })
  if (listed !== null) throw beingPlayed(run, listed)
  for (;;) {
    // An id has one open execution, so an earlier one of the same id has ended.
    const isOther = last.workflowId !== player.workflowId
    if (isOther && (await roots.isPlaying({ run, workflowId: last.workflowId })))
      throw beingPlayed(run, last.workflowId)
    const number: number = last.number + 1
    const mine: PlayerRecord = { schema: 'longhaul.player/1', run, ...player }
    const { record, won } = await store.claimRecord<PlayerRecord>(runKeys.player(run, number), mine)
    if (won || isSame(record, player)) return
    last = { ...record, number }
  }
}

const PUBLISHING_ROOTS = ['trainAgent', 'evaluate']

/** The root that called the running activity: after a reset it may never have asked whether it is alone. Null for other workflows. */
export function callingRoot(): Player | null {
  const { workflowType, workflowExecution: execution } = Context.current().info
  if (execution === undefined || !PUBLISHING_ROOTS.includes(workflowType ?? '')) return null
  return { workflowId: execution.workflowId, runId: execution.runId }
}

/** The workflow that plays the run now, if it is another one. */
export async function findOtherPlayer({ store, roots, run, player }: PlayAloneInput): Promise<string | null> {
  const last = await lastPlayer(store, run)
  if (last === null || last.workflowId === player.workflowId) return null
  return (await roots.isPlaying({ run, workflowId: last.workflowId })) ? last.workflowId : null
}

/** The execution that began to play a run last, with its number from 0; null for a run without a claim. */
export async function lastPlayer(
  store: Pick<ArtifactStore, 'list' | 'readRecord'>,
  run: string,
): Promise<(Player & { number: number }) | null> {
  let number = Math.max(0, ...(await store.list(runKeys.players(run))).map(runKeys.playerNumber))
  // A bucket may list an older state.
  while ((await store.readRecord(runKeys.player(run, number + 1))) !== null) number += 1
  if (number > 0) {
    const record = await store.readRecord<PlayerRecord>(runKeys.player(run, number))
    return record === null ? null : { workflowId: record.workflowId, runId: record.runId, number }
  }
  const claim = await store.readRecord<RunClaim>(runKeys.claim(run))
  return claim === null ? null : { workflowId: claim.workflowId, runId: claim.firstExecutionRunId, number }
}

function isSame(a: Player, b: Player): boolean {
  return a.workflowId === b.workflowId && a.runId === b.runId
}

function beingPlayed(run: string, workflow: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Run ${run} is being played by the workflow ${workflow}. Wait for its end, or cancel it, and start the run again; or choose another name`,
    details: { run, workflow },
  })
}
