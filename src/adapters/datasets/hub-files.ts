import { downloadFile, HubApiError, listFiles, type RepoDesignation } from '@huggingface/hub'
import type { AsyncBuffer } from 'hyparquet'
import { LonghaulError } from '../../contracts/errors.ts'
import { COMMIT, patientFetch, RANGE_BYTES, readRange, silenceOf } from '../hub/requests.ts'

export interface HubSplit {
  dataset: string
  /** Forty hexadecimal digits. */
  revision: string
  split: string
  /** Null for the public hub. */
  hubUrl: string | null
}

export interface HubFile {
  path: string
  bytes: number
  /** The repository's hash of the content: SHA-256 of a large file, otherwise the id of a Git blob. */
  oid: string | null
  open(): Promise<AsyncBuffer>
}

/**
 * Finds all Parquet files of a split at a pinned revision, in order.
 * @throws LonghaulError `Config.Invalid` for a revision that may move, `Config.NotFound` for an unknown data set, revision or split,
 * `Artifact.Unavailable` for a hub that does not answer
 */
export async function findHubFiles({ dataset, revision, split, hubUrl }: HubSplit): Promise<HubFile[]> {
  if (!COMMIT.test(revision)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected the revision of a data set to be a commit of 40 hexadecimal digits, because branches and tags move`,
      details: { dataset, revision },
    })
  }
  const repo: RepoDesignation = { type: 'dataset', name: dataset }
  const where = { repo, revision, fetch: patientFetch, ...(hubUrl === null ? {} : { hubUrl }) }
  const pattern = new RegExp(`(?:^|/)${escapePattern(split)}-(\\d{5})-of-(\\d{5})(?:-[0-9a-f]+)?\\.parquet$`)
  const found: (HubFile & { of: number })[] = []
  await explained({ dataset, revision }, async () => {
    for await (const { path, size, oid, lfs } of listFiles({ ...where, recursive: true })) {
      const match = pattern.exec(path)
      if (match === null) continue
      const open = () => explained({ dataset, revision, path }, () => openFile({ ...where, path }))
      found.push({ path, bytes: size, oid: lfs?.oid ?? oid ?? null, open, of: Number(match[2]) })
    }
  })
  const [first] = found
  if (first === undefined || found.length !== first.of) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected the Parquet files of split ${split}, got ${found.length} of ${first?.of ?? 'at least 1'}`,
      details: { dataset, revision, split },
    })
  }
  return found
    .toSorted((left, right) => (left.path < right.path ? -1 : 1))
    .map(({ path, bytes, oid, open }) => ({ path, bytes, oid, open }))
}

/** Opens a file for range reads; only the requested ranges are downloaded. */
async function openFile(input: Parameters<typeof downloadFile>[0]): Promise<AsyncBuffer> {
  const blob = await downloadFile({ ...input, xet: false })
  if (blob === null) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: 'Expected a file of the data set, but the hub has none',
      details: { path: input.path },
    })
  }
  return {
    byteLength: blob.size,
    slice: async (start, end = blob.size) => {
      const parts: ArrayBuffer[] = []
      for (let from = start; from < end; from += RANGE_BYTES) {
        const range = { start: from, end: Math.min(from + RANGE_BYTES, end), path: input.path }
        parts.push(await explained({ path: input.path }, () => readRange(blob, range)))
      }
      return parts.length === 1 && parts[0] !== undefined ? parts[0] : new Blob(parts).arrayBuffer()
    },
  }
}

/** Translates a hub's error into a message about the request. */
export async function explained<T>(details: Record<string, string>, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (cause) {
    if (cause instanceof LonghaulError) throw cause
    const status = cause instanceof HubApiError ? cause.statusCode : null
    const isThere = status !== 404 && status !== 401
    throw new LonghaulError({
      code: isThere ? 'Artifact.Unavailable' : 'Config.NotFound',
      message: isThere
        ? `Expected the hub to answer, got ${status === null ? silenceOf(cause) : (cause as Error).message}`
        : 'Expected a public data set of that name and revision, but the hub has none',
      details: status === null ? details : { ...details, status },
      cause,
    })
  }
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
}
