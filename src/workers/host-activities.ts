import type { HostActivities } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { CaptureRecord } from '../contracts/episodes.types.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { episodeId, episodeKeys } from '../contracts/keys.ts'
import type { SandboxHandle, SandboxHost } from '../contracts/sandbox.types.ts'
import type { HostFacts } from '../contracts/hosts.types.ts'
import { attendHost } from '../activities/host/attend-host.ts'
import type { HostDoor } from '../activities/runtime/host-door.ts'
import type { RecipeReader } from '../activities/runtime/stored-records.ts'
import { activity, type ActivityOwner } from '../activities/runtime/activity-runtime.ts'
import { lastRunBefore, readTurns } from '../activities/episode/transcript.ts'
import { createSolePlayer } from '../activities/episode/sole-player.ts'
import { createKeptTranscripts } from '../activities/episode/kept-transcripts.ts'
import { type AdvanceDependencies, advanceEpisode, fenceOf } from '../activities/episode/advance-episode.ts'
import type { Samplers } from '../activities/episode/samplers.ts'

export interface HostDependencies extends Omit<AdvanceDependencies, 'sampler' | 'kept'> {
  samplers: Samplers
  store: ArtifactStore
  sandbox: SandboxHost
  recipes: RecipeReader
  door: HostDoor
  /** Reports what this host currently holds. */
  look: () => Promise<HostFacts>
}

/** Activities of the machine that holds the sandbox. */
export function createHostActivities(deps: HostDependencies): HostActivities {
  const kept = createKeptTranscripts()
  const playAlone = createSolePlayer()
  return {
    advanceEpisode: activity(async (input, scope) => {
      const { sandbox } = input
      requireOwnSandbox(sandbox, scope.owner)
      const sampler = await deps.samplers(input.run)
      return playAlone({ sandbox, fence: fenceOf(input, scope.order), scope }, (alone) =>
        advanceEpisode({ ...deps, kept, sampler }, input, alone),
      )
    }),

    captureSubmission: activity(async (input, { owner, signal }) => {
      requireOwnSandbox(input.sandbox, owner)
      const recipe = await deps.recipes(input.run)
      const { capture } = recipe.scaffold.submit
      const episode = episodeId(input)
      const known = kept.take({ owner, sandbox: input.sandbox })?.transcript.turns
      const after = lastRunBefore(await readTurns(deps.store, episode, known), Number.POSITIVE_INFINITY)
      const request = { mode: capture, after }
      const { patch, lostFiles, failure } = await deps.sandbox.capture(input.sandbox, request, signal)
      // The first capture is the submission. Its bytes are stored before the record, so that the record never names a missing artifact.
      const patchRef = await deps.store.put(episodeKeys.patch(episode), patch)
      await deps.store.claimRecord<CaptureRecord>(episodeKeys.capture(episode), {
        schema: 'longhaul.capture/1',
        episode,
        mode: capture,
        lostFiles,
        failure: failure ?? null,
        sha256OfPatch: patchRef.sha256,
        bytes: patchRef.bytes,
      })
      return patchRef
    }),

    closeSandbox: activity(async ({ name }, { owner }) => {
      kept.take({ owner, sandbox: { name } })
      await deps.sandbox.close({ name })
    }),

    attendHost: activity(async (_input, scope) => attendHost(deps, scope)),
  }
}

/**
 * Requires that the sandbox belongs to this execution of its episode. After a reset, the new execution finds the handle in the history
 * that it inherits, while attempts of the previous execution may still use that sandbox.
 * @throws LonghaulError `Sandbox.Foreign`, after which the episode is placed again
 */
function requireOwnSandbox({ name, ownerRun }: SandboxHandle, owner: ActivityOwner): void {
  if (ownerRun === undefined || ownerRun === owner.ownerRun) return
  throw new LonghaulError({
    code: 'Sandbox.Foreign',
    message: 'Expected a sandbox of this execution, got one that an earlier execution of the episode opened',
    details: { name, openedBy: ownerRun, execution: owner.ownerRun },
  })
}
