import { downloadFile, HubApiError, listFiles, type RepoDesignation } from '@huggingface/hub'
import type { AsyncBuffer } from 'hyparquet'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'

/** A commit of the data set's own repository: a branch or tag may move under a published figure. */
const COMMIT = /^[0-9a-f]{40}$/
const REQUEST_TIMEOUT_MS = 120_000
const ATTEMPTS = 3
/** Of one request: what a slow line brings well within the time limit. */
const RANGE_BYTES = 8 * 1024 * 1024

export interface HubSplit {
  dataset: string
  /** Forty hexadecimal digits. */
  revision: string
  split: string
  /** Null: the public hub. */
  hubUrl: string | null
}

export interface HubFile {
  path: string
  bytes: number
  /** What the repository says the content is: SHA-256 of a large file, else the id of a Git blob. */
  oid: string | null
  open(): Promise<AsyncBuffer>
}

/**
 * The Parquet files of a split at a pinned revision, in order, all of them.
 * @throws LonghaulError `Config.Invalid` for a revision that may move, `Config.NotFound` for an unknown data set, revision or
 *   split, `Artifact.Unavailable` for a hub that does not answer
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

/** Reads ranges of a file: nothing is downloaded but what is read. */
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
        parts.push(await readRange(blob, from, Math.min(from + RANGE_BYTES, end), input.path))
      }
      return parts.length === 1 && parts[0] !== undefined ? parts[0] : new Blob(parts).arrayBuffer()
    },
  }
}

/** An answer that breaks off is asked for again. */
async function readRange(blob: Blob, start: number, end: number, path: string): Promise<ArrayBuffer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await explained({ path }, () => wholeRange(blob, start, end, path))
    } catch (error) {
      if (attempt === ATTEMPTS || !isLonghaulError(error) || error.code !== 'Artifact.Unavailable') throw error
    }
  }
}

async function wholeRange(blob: Blob, start: number, end: number, path: string): Promise<ArrayBuffer> {
  const bytes = await blob.slice(start, end).arrayBuffer()
  if (bytes.byteLength === end - start) return bytes
  throw new LonghaulError({
    code: 'Artifact.Unavailable',
    message: `Expected ${end - start} bytes of a range, got ${bytes.byteLength}`,
    details: { path, start },
  })
}

/** A request that hangs, is refused for now or meets a broken server is made again; the last answer stands. */
async function patientFetch(...[url, init]: Parameters<typeof fetch>): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const response = await fetch(url, { ...init, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })
      const mayPass = response.status === 429 || response.status >= 500
      if (!mayPass || attempt === ATTEMPTS) return response
      await response.body?.cancel()
    } catch (error) {
      if (attempt === ATTEMPTS) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * attempt))
  }
}

async function explained<T>(details: Record<string, string>, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (cause) {
    if (cause instanceof LonghaulError) throw cause
    const status = cause instanceof HubApiError ? cause.statusCode : null
    const isThere = status !== 404 && status !== 401
    throw new LonghaulError({
      code: isThere ? 'Artifact.Unavailable' : 'Config.NotFound',
      message: isThere
        ? `Expected the hub to answer, got ${cause instanceof Error ? cause.message : String(cause)}`
        : 'Expected a public data set of that name and revision, but the hub has none',
      details: status === null ? details : { ...details, status },
      cause,
    })
  }
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
}
