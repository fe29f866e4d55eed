import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'

/**
 * The largest thing that goes through a store in one piece is a batch: a gigabyte at 25 MB/s. Below the minute that short
 * bookkeeping activities have, so that these fail with the store's name and not with a bare time-out.
 */
export const STORE_ANSWER_MS = 45_000

/**
 * Ends each wait for a store that does not answer: a dead network mount or a stuck disk blocks file calls for ever, and they
 * cannot be called back. What such a call still does later is harmless, for keys are put if absent.
 */
export function boundStore({
  store,
  name,
  answerMs = STORE_ANSWER_MS,
}: {
  store: ArtifactStore
  /** For the message. */
  name: string
  answerMs?: number
}): ArtifactStore {
  const within = async <T>(key: string, work: Promise<T>): Promise<T> => {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => reject(overdue({ name, key, answerMs })), answerMs)
    try {
      return await Promise.race([work, late])
    } finally {
      clearTimeout(timer)
    }
  }
  return {
    put: (key, bytes) => within(key, store.put(key, bytes)),
    get: (ref) => within(ref.key, store.get(ref)),
    read: (key) => within(key, store.read(key)),
    putRecord: (key, record) => within(key, store.putRecord(key, record)),
    claimRecord: (key, record) => within(key, store.claimRecord(key, record)),
    readRecord: (key) => within(key, store.readRecord(key)),
    list: (prefix) => within(prefix, store.list(prefix)),
    listPage: (input) => within(input.prefix, store.listPage(input)),
    folders: (folder) => within(folder, store.folders(folder)),
    // As long as it takes: a run of 10,000 episodes has a million keys.
    removeFolder: (folder) => store.removeFolder(folder),
    locate: (key) => store.locate(key),
    path: (key) => store.path(key),
    uri: (key) => store.uri(key),
    // Files of hundreds of gigabytes: each of their requests has its own limit.
    weights: store.weights,
  }
}

function overdue({ name, key, answerMs }: { name: string; key: string; answerMs: number }): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Unavailable',
    message: `Expected the artifact store to answer within ${answerMs / 1000} s. Look at its disk or mount`,
    details: { store: name, key },
  })
}
