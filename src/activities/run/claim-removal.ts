import { randomUUID } from 'node:crypto'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { removalKeys } from '../../contracts/keys.ts'
import type { RemovalBegun } from '../../contracts/run-records.types.ts'

/** A command without a sign of life for a minute was killed, because it renews its mark every ten seconds. */
const SIGN_EVERY_MS = 10_000
const ALIVE_FOR_MS = 60_000

export interface RemovalClaim {
  /** Declares that records will be removed. If the command gives up after this, the run's name stays refused. */
  removes(): void
  /** @throws LonghaulError `Run.StillClosing` if another command has taken over the removal meanwhile */
  requireHeld(): Promise<void>
  /** Everything is removed, so the name is free. */
  end(): Promise<void>
  /** Never throws. If the mark cannot be updated now, it expires a minute later. */
  giveUp(): Promise<void>
}

/**
 * Claims the right to remove a run, for one command at a time. The end of a first command frees the name, and a second one would then
 * remove what a new run has stored under it. The next command takes over a removal that was killed or failed.
 * @throws LonghaulError `Run.StillClosing` if another command is running
 */
export async function beginRemoval(
  store: ArtifactStore,
  run: string,
  now: () => number = Date.now,
): Promise<RemovalClaim> {
  const mark: RemovalBegun = { schema: 'longhaul.removal/1', run, id: randomUUID(), begunAtMs: now() }
  const { record: begun, won } = await store.claimRecord<RemovalBegun>(removalKeys.begun(run), mark)
  const number = won ? 0 : await takeUp(store, begun, now)
  const sign = (): void => void store.putRecord(removalKeys.sign(run, number, now()), { run }).catch(() => undefined)
  const signing = setInterval(sign, SIGN_EVERY_MS)
  signing.unref()
  let isWhole = won
  const isHeld = async (): Promise<boolean> => {
    const stored = await store.readRecord<RemovalBegun>(removalKeys.begun(run))
    return stored !== null && stored.id === begun.id && (await lastNumber(store, run)) === number
  }
  return {
    removes: () => {
      isWhole = false
    },
    async requireHeld() {
      if (!(await isHeld())) throw another(run, 'has gone on with the removal of')
    },
    async end() {
      clearInterval(signing)
      // Stored before the name is free. Only the last one is of use.
      await store.removeFolder(removalKeys.allRemoved(run))
      await store.putRecord(removalKeys.removed(run, now()), { run })
      await store.removeFolder(removalKeys.folder(run))
    },
    async giveUp() {
      clearInterval(signing)
      try {
        await store.removeFolder(removalKeys.signs(run, number))
        if (!(await isHeld())) return
        // A remaining mark would refuse the name of a complete run, and send its operator here to remove it.
        if (isWhole) await store.removeFolder(removalKeys.folder(run))
        else await store.putRecord(removalKeys.givenUp(run, number), { run })
      } catch {
        // The next command takes over the removal a minute later.
      }
    },
  }
}

/** @returns the number of this command among those that have taken over the removal */
async function takeUp(store: ArtifactStore, begun: RemovalBegun, now: () => number): Promise<number> {
  const { run } = begun
  const last = await lastNumber(store, run)
  const hasGivenUp = (await store.readRecord(removalKeys.givenUp(run, last))) !== null
  if (!hasGivenUp && now() - (await lastSignMs(store, begun, last)) < ALIVE_FOR_MS) throw another(run, 'removes')
  const { won } = await store.claimRecord(removalKeys.takenUp(run, last + 1), { id: randomUUID(), atMs: now() })
  if (!won) throw another(run, 'removes')
  return last + 1
}

async function lastNumber(store: ArtifactStore, run: string): Promise<number> {
  return (await store.list(removalKeys.allTakenUp(run))).length
}

async function lastSignMs(store: ArtifactStore, { run, begunAtMs = 0 }: RemovalBegun, number: number): Promise<number> {
  const taken = number === 0 ? null : await store.readRecord<{ atMs: number }>(removalKeys.takenUp(run, number))
  const signs = (await store.list(removalKeys.signs(run, number))).map(removalKeys.signedAtMs)
  return Math.max(number === 0 ? begunAtMs : (taken?.atMs ?? 0), ...signs)
}

function another(run: string, does: string): LonghaulError {
  return new LonghaulError({
    code: 'Run.StillClosing',
    message: `Another command ${does} ${run} and frees its name when it ends. If it was killed, repeat this command after a minute`,
    details: { run },
  })
}
