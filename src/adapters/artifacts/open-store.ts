import { join } from 'node:path'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { createDirectoryStore, requireDirectoryStore } from './directory-store.ts'
import { namesBucket, parseS3Location } from './s3/s3-location.ts'
import type { SendS3 } from './s3/s3-requests.ts'

export interface OpenStoreInput {
  /** A directory, or `s3://bucket/prefix`. */
  location: string
  /** Whether write access is tested first. Workers do that; readers may lack write access. */
  check: boolean
  /** Whether a bucket must prove that it refuses a second put of a key, for commands that write. @default only if `check` is true */
  writes?: boolean
  /** Whether an absent directory, or a prefix of a bucket without objects, is refused; otherwise the first put creates it. @default false */
  mustExist?: boolean
  onTransientError?: (error: LonghaulError) => void
  /** Where weights of a bucket are cached; a directory store needs no cache. @default nowhere */
  weights?: WeightsOptions
}

export interface WeightsOptions {
  directory: string
  /** Whether an operator chose the directory. */
  isShared: boolean
  limitBytes: number
}

/** An upload takes minutes, so the writer of an upload of this age has died. */
const UNFINISHED_MS = 24 * 60 * 60 * 1000

/** Buckets that this process has verified, because `--role all` opens one store for each role. */
const checked = new Map<string, Promise<void>>()

/**
 * Opens the store that LONGHAUL_ARTIFACTS names. The S3 client is loaded only for a bucket.
 * @throws LonghaulError `Config.Invalid`, `Config.NotFound`, `Artifact.Unavailable`
 */
export async function openArtifactStore({
  location: text,
  check,
  writes = check,
  mustExist = false,
  onTransientError,
  weights,
}: OpenStoreInput): Promise<ArtifactStore> {
  if (!namesBucket(text)) {
    if (mustExist) requireDirectoryStore(text)
    return createDirectoryStore({ root: text, checksWriting: check })
  }
  const location = parseS3Location(text)
  const [{ createS3Requests }, { checkBucket, createS3Store }, { credentialChain }, { asStartError }] =
    await Promise.all([
      import('./s3/s3-requests.ts'),
      import('./s3/s3-store.ts'),
      import('./s3/s3-credentials.ts'),
      import('./s3/s3-errors.ts'),
    ])
  const requests = { location, credentials: credentialChain(), store: text }
  const transient = onTransientError === undefined ? {} : { onTransientError }
  // A run in progress waits for an operator as it does during an outage. A start and a command fail at once with what to change.
  const reach = createS3Requests({ ...requests, ...transient, waitsForOperator: check })
  const send: SendS3 = check
    ? reach
    : (request) =>
        reach(request).catch((error: unknown) => {
          throw asStartError(error)
        })
  if (writes) {
    const found = checked.get(text) ?? checkBucket({ location, send: createS3Requests({ ...requests, ...transient }) })
    checked.set(text, found)
    found.catch(() => checked.delete(text))
    await found
  }
  if (check) {
    const { createObjects } = await import('./s3/s3-objects.ts')
    const before = new Date(Date.now() - UNFINISHED_MS)
    // In the background, because unfinished uploads cost space and never correctness.
    void createObjects(send)
      .endUnfinished({ prefix: location.prefix, before })
      .catch(() => undefined)
  }
  // Two stores may hold different files under the same policy version.
  const place =
    weights === undefined ? null : { ...weights, directory: join(weights.directory, sha256Hex(text).slice(0, 12)) }
  const store = createS3Store({ location, send, place })
  if (mustExist) await requireObjects(store, text)
  return store
}

/** Checks a bucket for a command that only reads, with one request: a mistyped prefix looks like a store without runs. */
async function requireObjects(store: ArtifactStore, location: string): Promise<void> {
  const { keys, next } = await store.listPage({ prefix: '', limit: 1 })
  // Pages leave out the probe of a worker's start, which a worker without the right to remove leaves behind.
  if (keys.length > 0 || next !== null) return
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `No artifact store is at ${location}: the bucket has no object there before the first run or push; set LONGHAUL_ARTIFACTS to use another store`,
  })
}
