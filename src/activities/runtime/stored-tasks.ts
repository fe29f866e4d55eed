import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { SuiteManifest, Task } from '../../contracts/tasks.types.ts'

export type TaskReader = (input: { suite: string; taskId: string }) => Promise<Task>
export type SuiteReader = (suite: string) => Promise<SuiteManifest>

/** Tasks and suites are immutable and addressed by hash, so a worker reads each once. */
export function createTaskReader(store: ArtifactStore): TaskReader {
  const cache = new Map<string, Task>()
  return async ({ suite, taskId }) => {
    const key = suiteKeys.task(suite, taskId)
    const known = cache.get(key)
    if (known !== undefined) return known
    const task = await readOrThrow<Task>(store, key)
    cache.set(key, task)
    return task
  }
}

export function createSuiteReader(store: ArtifactStore): SuiteReader {
  const cache = new Map<string, SuiteManifest>()
  return async (suite) => {
    const known = cache.get(suite)
    if (known !== undefined) return known
    const manifest = await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(suite))
    cache.set(suite, manifest)
    return manifest
  }
}

export async function readOrThrow<T extends object>(store: ArtifactStore, key: string): Promise<T> {
  const record = await store.readRecord<T>(key)
  if (record !== null) return record
  throw new LonghaulError({ code: 'Artifact.Missing', message: 'Expected a stored record', details: { key } })
}
