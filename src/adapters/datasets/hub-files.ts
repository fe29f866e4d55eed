import { downloadFile, HubApiError, listFiles, type RepoDesignation } from '@huggingface/hub'
import type { AsyncBuffer } from 'hyparquet'
import { LonghaulError } from '../../contracts/errors.ts'
import { COMMIT, connectHub, type HubPlace, RANGE_BYTES, readRange, silenceOf } from '../hub/requests.ts'

export interface HubSplit {
  dataset: string
  /** Forty hexadecimal digits. */
  revision: string
  split: string
  /** Null for the public hub. */
  hubUrl: string | null
  /** @default none is sent, as workers do */
  token?: HubPlace['token'] | undefined
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
export async function findHubFiles({ dataset, revision, split, hubUrl, token }: HubSplit): Promise<HubFile[]> {
  if (!COMMIT.test(revision)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected the revision of a data set to be a commit of 40 hexadecimal digits, because branches and tags move`,
      details: { dataset, revision },
    })
  }
  const repo: RepoDesignation = { type: 'dataset', name: dataset }
  const hub = connectHub({ hubUrl, token: token ?? NO_TOKEN })
  const where = { repo, revision, fetch: hub.fetch, hubUrl: hub.url }
  const pattern = new RegExp(`(?:^|/)${escapePattern(split)}-(\\d{5})-of-(\\d{5})(?:-[0-9a-f]+)?\\.parquet$`)
  const found: (HubFile & { of: number })[] = []
  const asked = { facts: { dataset, revision }, token }
  await explained(asked, async () => {
    for await (const { path, size, oid, lfs } of listFiles({ ...where, recursive: true })) {
      const match = pattern.exec(path)
      if (match === null) continue
      const open = () => explained({ ...asked, facts: { ...asked.facts, path } }, () => openFile({ ...where, path }))
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
        parts.push(await explained({ facts: { path: input.path } }, () => readRange(blob, range)))
      }
      return parts.length === 1 && parts[0] !== undefined ? parts[0] : new Blob(parts).arrayBuffer()
    },
  }
}

const NO_TOKEN = { variable: 'HF_TOKEN', value: null }

interface Asked {
  facts: Record<string, string>
  /** @default the reader sends none */
  token?: HubPlace['token'] | undefined
}

/** Translates a hub's error into a message about the request. */
export async function explained<T>({ facts, token }: Asked, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (cause) {
    if (cause instanceof LonghaulError) throw cause
    const status = cause instanceof HubApiError ? cause.statusCode : null
    const refusal = describeRefusal(status, token)
    const got = status === null ? silenceOf(cause) : (cause as Error).message
    throw new LonghaulError({
      code: refusal === null ? 'Artifact.Unavailable' : 'Config.NotFound',
      message: refusal ?? `Expected the hub to answer, got ${got}`,
      details: status === null ? facts : { ...facts, status },
      cause,
    })
  }
}

function describeRefusal(status: number | null, token: Asked['token']): string | null {
  if (status === 404) return 'Expected a data set of that name and revision, but the hub has none'
  if (status === 403) {
    return 'The hub does not let this token read the data set: accept its terms on its page with the token’s account, or give the token leave to read it'
  }
  if (status !== 401) return null
  if (token === undefined) {
    return 'The hub shows no such data set without a token, and workers send none: longhaul tasks import reads it with one, and kind: file takes the result'
  }
  return token.value === null
    ? `The hub shows no such data set without a token: it is private or gated, or has another name. Set ${token.variable} to a token that may read it, or name another variable with --token-variable`
    : `The hub refuses the token in ${token.variable}: put one that is valid and may read the data set there`
}

function escapePattern(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
}
