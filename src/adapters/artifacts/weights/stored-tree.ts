/** A directory stored as blobs by hash. Content that two policies share is stored once, and an interrupted transfer continues where
 *  it stopped. */
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import { open, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { blobKey } from '../../../contracts/keys.ts'
import { errnoOf, makeDirectory } from '../../../platform/files.ts'
import { sha256Hex, sha256OfFile } from '../../../platform/hash.ts'
import { createSlots } from '../../../platform/limiter.ts'
import { checkKey, corrupt } from '../store-rules.ts'

/** Size of a blob. Each blob in flight is held in memory, and a store sends it in parts. */
const BLOB_BYTES = 64 * 2 ** 20
const BLOBS_AT_ONCE = 2
/** Existing local files up to this size are compared by their bytes, larger ones by their length. */
const SMALL_BYTES = 2 ** 20
const MANIFEST = 'MANIFEST.json'

export interface TreeFile {
  path: string
  bytes: number
  /** SHA-256 of each blob, in order. All blobs but the last have BLOB_BYTES; an empty file has none. */
  blobs: string[]
}

type Blobs = Pick<ArtifactStore, 'put' | 'get' | 'listPage'>

/** Stores every file of a committed directory. @throws LonghaulError `Artifact.Corrupt` for a file that deviates from its manifest */
export async function storeTree(
  store: Blobs,
  { directory, signal }: { directory: string; signal?: AbortSignal | undefined },
): Promise<TreeFile[]> {
  const expected = await hashesOf(directory)
  const files: TreeFile[] = []
  for (const path of (await pathsBelow(directory, '')).sort()) {
    const file = join(directory, path)
    const listed = expected.get(path)
    if (listed !== undefined && (await sha256OfFile(file)) !== listed) {
      throw corrupt(file, 'content differs from its manifest')
    }
    files.push({ path, ...(await storeFile(store, file, signal)) })
  }
  return files
}

async function storeFile(store: Blobs, path: string, signal: AbortSignal | undefined): Promise<Omit<TreeFile, 'path'>> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const blobs = await eachBlob(size, signal, async ({ from, bytes }) => {
      const content = Buffer.alloc(bytes)
      const { bytesRead } = await file.read(content, 0, bytes, from)
      if (bytesRead !== bytes) throw corrupt(path, 'it became shorter while it was read')
      const sha256 = sha256Hex(content)
      // Checked first, because a put of an existing key would read all of it to compare.
      const { keys } = await store.listPage({ prefix: blobKey(sha256), limit: 1 })
      if (keys.length === 0) await store.put(blobKey(sha256), content)
      return sha256
    })
    return { bytes: size, blobs }
  } finally {
    await file.close()
  }
}

/** Writes the files of a tree below a directory and verifies the hash of each blob. @throws LonghaulError `Artifact.*` */
export async function writeTree(
  store: Blobs,
  { files, directory, signal }: { files: readonly TreeFile[]; directory: string; signal?: AbortSignal | undefined },
): Promise<void> {
  for (const { path, bytes: size, blobs } of files) {
    const target = join(directory, checkKey(path))
    await makeDirectory(dirname(target))
    const file = await open(target, 'wx')
    try {
      await eachBlob(size, signal, async ({ at, from, bytes }) => {
        const content = await blobAt(store, { path, blobs, at, bytes })
        // A disk that becomes full takes a part of the bytes and says so only to the next call.
        for (let done = 0; done < bytes; ) {
          done += (await file.write(content, done, bytes - done, from + done)).bytesWritten
        }
      })
      await file.datasync()
    } finally {
      await file.close()
    }
  }
}

/** Reads one file of a tree into memory; meant for small files. */
export async function readFromTree(store: Blobs, { path, bytes: size, blobs }: TreeFile): Promise<Buffer> {
  const parts = await eachBlob(size, undefined, ({ at, bytes }) => blobAt(store, { path, blobs, at, bytes }))
  return Buffer.concat(parts)
}

async function blobAt(
  store: Blobs,
  { path, blobs, at, bytes }: { path: string; blobs: readonly string[]; at: number; bytes: number },
): Promise<Uint8Array> {
  const sha256 = blobs[at]
  if (sha256 === undefined) throw corrupt(path, `blob ${at} is not recorded`)
  return store.get({ key: blobKey(sha256), sha256, bytes })
}

/** Returns whether a local directory has the files, because it was made or downloaded here. */
export async function holdsTree(directory: string, files: readonly TreeFile[]): Promise<boolean> {
  for (const { path, bytes, blobs } of files) {
    const file = join(directory, path)
    const found = await stat(file).catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return null
      throw error
    })
    if (found?.size !== bytes) return false
    if (bytes > 0 && bytes <= SMALL_BYTES && (await sha256OfFile(file)) !== blobs[0]) return false
  }
  return true
}

export function bytesOfTree(files: readonly TreeFile[]): number {
  return files.reduce((sum, { bytes }) => sum + bytes, 0)
}

interface Piece {
  at: number
  from: number
  bytes: number
}

/** After a failure no further blob begins, and the error is thrown after those in flight have ended. */
async function eachBlob<T>(
  size: number,
  signal: AbortSignal | undefined,
  work: (piece: Piece) => Promise<T>,
): Promise<T[]> {
  const slots = createSlots(BLOBS_AT_ONCE)
  const failed = new AbortController()
  const ends = await Promise.allSettled(
    Array.from({ length: Math.ceil(size / BLOB_BYTES) }, (_, at) =>
      slots.use(async () => {
        signal?.throwIfAborted()
        failed.signal.throwIfAborted()
        const from = at * BLOB_BYTES
        try {
          return await work({ at, from, bytes: Math.min(BLOB_BYTES, size - from) })
        } catch (error) {
          failed.abort(error)
          throw error
        }
      }),
    ),
  )
  failed.signal.throwIfAborted()
  signal?.throwIfAborted()
  return ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
}

/** Returns the manifest's hashes of the files that it lists. */
async function hashesOf(directory: string): Promise<Map<string, string>> {
  const file = await open(join(directory, MANIFEST), 'r')
  try {
    const { files } = JSON.parse(await file.readFile('utf8')) as { files: { path: string; sha256: string }[] }
    return new Map(files.map(({ path, sha256 }) => [path, sha256]))
  } finally {
    await file.close()
  }
}

async function pathsBelow(root: string, below: string): Promise<string[]> {
  const paths: string[] = []
  for (const entry of await readdir(join(root, below), { withFileTypes: true })) {
    const path = below === '' ? entry.name : `${below}/${entry.name}`
    if (entry.isDirectory()) paths.push(...(await pathsBelow(root, path)))
    else paths.push(path)
  }
  return paths
}

/** Both parts are in one record, so that two hosts that train the same job can never contribute one part each. */
export interface WeightsRecord {
  schema: 'longhaul.weights/1'
  policy: PolicyRef
  trees: { policy: TreeFile[]; checkpoint: TreeFile[] | null }
}
