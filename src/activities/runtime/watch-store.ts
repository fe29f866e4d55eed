import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { waitingFor } from './wait-board.ts'

/** The store of an activity worker: each operation is named in the heartbeats of the activity that waits for it. */
export function watchStore({ store, name }: { store: ArtifactStore; name: string }): ArtifactStore {
  const during = <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    waitingFor({ doing, on: { kind: 'artifact-store', name } }, work)
  return {
    put: (key, bytes) => during(`writing ${key}`, () => store.put(key, bytes)),
    get: (ref) => during(`reading ${ref.key}`, () => store.get(ref)),
    read: (key) => during(`reading ${key}`, () => store.read(key)),
    putRecord: (key, record) => during(`writing ${key}`, () => store.putRecord(key, record)),
    claimRecord: (key, record) => during(`writing ${key}`, () => store.claimRecord(key, record)),
    readRecord: (key) => during(`reading ${key}`, () => store.readRecord(key)),
    list: (prefix) => during(`listing ${prefix}`, () => store.list(prefix)),
    path: (key) => store.path(key),
    uri: (key) => store.uri(key),
  }
}
