import { watchStore } from '../activities/runtime/watch-store.ts'
import { createDirectoryStore } from '../adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { Interposers } from './interposers.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** The artifact store of this worker; activities that wait for it, or for what stands before it, say so. */
export function connectStore({ artifacts }: WorkerEnvironment, between: Interposers): ArtifactStore {
  return watchStore({ store: between.store(createDirectoryStore({ root: artifacts })), name: artifacts })
}
