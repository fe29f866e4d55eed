/** A JSON document in parts that fit through Temporal, whose payloads have a limit of two MiB. */
import { gunzipSync, gzipSync } from 'node:zlib'
import { LonghaulError } from '../contracts/errors.ts'
import type { EvaluationPage } from '../contracts/workflows.types.ts'
import { sha256Hex } from './hash.ts'

/** As base64 a third more: well below the size at which the server warns (512 KiB). */
const PAGE_BYTES = 256 * 1024
/** What a reader accepts: a document of this size has tens of thousands of tasks. */
const MAX_PACKED_BYTES = 64 * 1024 * 1024
const MAX_OPEN_BYTES = 512 * 1024 * 1024

export function packPage(document: object, from = 0, pageBytes = PAGE_BYTES): EvaluationPage {
  // The same document gives the same bytes, so every page may be packed by another worker.
  const packed = gzipSync(JSON.stringify(document), { level: 6 })
  const end = Math.min(packed.length, from + pageBytes)
  return {
    sha256: sha256Hex(packed),
    bytes: packed.length,
    data: packed.subarray(from, end).toString('base64'),
    next: end < packed.length ? end : null,
  }
}

/** Joins the pages of a document. One that changes while it is read is read again, twice at most. */
export async function openPages<T>(readPage: (from: number) => Promise<EvaluationPage>): Promise<T> {
  for (let attempt = 0; attempt < 3; attempt++) {
    const packed = await joinPages(readPage)
    if (packed !== null)
      return JSON.parse(gunzipSync(packed, { maxOutputLength: MAX_OPEN_BYTES }).toString('utf8')) as T
  }
  throw new LonghaulError({
    code: 'Artifact.Conflict',
    message: 'Expected a document that stays the same while it is read, but it changed three times; try again',
  })
}

async function joinPages(readPage: (from: number) => Promise<EvaluationPage>): Promise<Buffer | null> {
  const first = await readPage(0)
  if (first.bytes > MAX_PACKED_BYTES) {
    throw new LonghaulError({
      code: 'Artifact.Unavailable',
      message: `Expected a packed document of at most ${MAX_PACKED_BYTES} bytes, got ${first.bytes}`,
    })
  }
  const parts = [Buffer.from(first.data, 'base64')]
  for (let { next } = first; next !== null; ) {
    const page = await readPage(next)
    if (page.sha256 !== first.sha256) return null
    parts.push(Buffer.from(page.data, 'base64'))
    next = page.next
  }
  const packed = Buffer.concat(parts)
  return sha256Hex(packed) === first.sha256 ? packed : null
}
