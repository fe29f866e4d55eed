import type { HostActivities } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { SandboxHost } from '../../contracts/sandbox.types.ts'
import type { RecipeReader } from '../stored-recipe.ts'
import { activity } from '../activity-runtime.ts'
import { type AdvanceDependencies, advanceEpisode } from './advance-episode.ts'
import type { Samplers } from './samplers.ts'

export interface HostDependencies extends Omit<AdvanceDependencies, 'sampler'> {
  samplers: Samplers
  store: ArtifactStore
  sandbox: SandboxHost
  recipes: RecipeReader
}

/** Activities of the machine that holds the sandbox. */
export function createHostActivities(deps: HostDependencies): HostActivities {
  return {
    advanceEpisode: activity(async (input, scope) =>
      advanceEpisode({ ...deps, sampler: await deps.samplers(input.run) }, input, scope),
    ),

    captureSubmission: activity(async (input, scope) => {
      const recipe = await deps.recipes(input.run)
      const { capture } = recipe.scaffold.submit
      const { patch, lostFiles, failure } = await deps.sandbox.capture(input.sandbox, capture, scope.signal)
      const episode = episodeId(input)
      // The first capture is the submission: the bytes before the record, so that the record never names what is not there.
      const patchRef = await deps.store.put(episodeKeys.patch(episode), patch)
      await deps.store.claimRecord(episodeKeys.capture(episode), {
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

    closeSandbox: activity(async ({ name }) => deps.sandbox.close({ name })),
  }
}
