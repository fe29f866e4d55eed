/** The remains of a finished run: its records by episode, and leftovers that should not exist. */
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { ActionRecord, EpisodeRecord, ObservationRecord } from '../../src/contracts/episodes.types.ts'
import { episodeKeys, runKeys } from '../../src/contracts/keys.ts'
import type { Recipe } from '../../src/contracts/recipe.types.ts'
import { listTrainingJobs } from '../../src/stack/down.ts'
import type { PipelineWorld } from './pipeline-world.ts'
import type { StoredRecipe } from '../../src/contracts/run-records.types.ts'

export async function recipeOf(store: ArtifactStore, run: string): Promise<Recipe> {
  return (await readOrThrow<StoredRecipe>(store, runKeys.recipe(run))).recipe
}

/** The last record of every episode of a run, by key. */
export async function episodesOf(store: ArtifactStore, run: string): Promise<EpisodeRecord[]> {
  const keys = (await store.list(`episodes/${run}/`)).filter((key) => key.endsWith('/result.json'))
  return Promise.all(keys.map((key) => readOrThrow<EpisodeRecord>(store, key)))
}

export interface RecordedTurn {
  action: ActionRecord
  /** Null if the turn never got an answer. */
  observation: ObservationRecord | null
}

/** All turns with a committed action, in order, even beyond the count of the result. */
export async function turnsOf(store: ArtifactStore, episode: string): Promise<RecordedTurn[]> {
  const turns: RecordedTurn[] = []
  for (let turn = 0; ; turn++) {
    const action = await store.readRecord<ActionRecord>(episodeKeys.action(episode, turn))
    if (action === null) return turns
    const observation = await store.readRecord<ObservationRecord>(episodeKeys.observation(episode, turn))
    turns.push({ action, observation })
  }
}

export interface BatchManifest {
  key: string
  minibatches: unknown[]
  trajectories: { id: string }[]
}

export async function batchesOf(store: ArtifactStore, run: string): Promise<BatchManifest[]> {
  const keys = (await store.list(`runs/${run}/`)).filter((key) => key.endsWith('/batch.json'))
  return Promise.all(
    keys.map(async (key) => {
      const manifest = JSON.parse(new TextDecoder().decode((await store.read(key)) ?? undefined)) as BatchManifest
      return { ...manifest, key }
    }),
  )
}

/** Containers and trainers of a run that still exist, one line each. */
export async function leftBehind({ engine, stack }: PipelineWorld, run: string): Promise<string[]> {
  const containers = (await listSandboxes({ engine, run })).map(({ name }) => `container ${name}`)
  const trainers = listTrainingJobs(stack).map(({ pid, command }) => `trainer ${pid}: ${command}`)
  return [...containers, ...trainers]
}
