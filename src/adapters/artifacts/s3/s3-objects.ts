/** Objects of a bucket: create if absent, read, remove. Long objects are transferred in parts. */
import { createHash } from 'node:crypto'
import { LonghaulError } from '../../../contracts/errors.ts'
import { createSlots } from '../../../platform/limiter.ts'
import { unavailable } from './s3-errors.ts'
import type { S3Answer, SendS3 } from './s3-requests.ts'
import { escapeXml, listedTexts, textOf, textsOf, unescapeXml } from './s3-xml.ts'

/** Size of one request's body, and of one ranged read. At the minimum rate of `s3-requests.ts` it takes 16 seconds. */
export const PART_BYTES = 16 * 2 ** 20
/** Number of parts that are sent concurrently; each is held in memory. */
const PARTS_AT_ONCE = 4
const MAX_PARTS = 10_000

const HASH = 'x-amz-meta-sha256'
const WRITER = 'x-amz-meta-writer'
const TAKEN = 412

export interface CreateObjectInput {
  name: string
  bytes: Uint8Array
  sha256: string
  /** Distinguishes this write from another writer's write of the same bytes. */
  writer: string
}

export interface StoredObject {
  bytes: Buffer
  /** As stated by its writer; null for an object that Longhaul did not write. */
  sha256: string | null
  writer: string | null
}

export interface Objects {
  /** `created` is false if the name was taken, possibly by our own try whose answer was lost. */
  create(input: CreateObjectInput): Promise<{ created: boolean; lost: number }>
  /** Sends in parts like `create` does for long objects, whatever the length. Only the server decides whether the name is taken. */
  createInParts(input: CreateObjectInput): Promise<{ created: boolean; lost: number }>
  get(name: string): Promise<StoredObject | null>
  removeAll(names: readonly string[]): Promise<void>
  /** Aborts uploads below a prefix that began before `before`. Their parts are billed and never listed. */
  endUnfinished(input: { prefix: string; before: Date }): Promise<number>
}

/** @throws LonghaulError `Artifact.Unavailable` */
export function createObjects(send: SendS3): Objects {
  return {
    async create(input) {
      const { name, bytes, sha256, writer } = input
      if (bytes.byteLength > PART_BYTES) return createLong(send, input)
      const { status, lost } = await send({
        method: 'PUT',
        key: name,
        headers: { 'if-none-match': '*', [HASH]: sha256, [WRITER]: writer },
        body: bytes,
        expected: [TAKEN],
      })
      return { created: status !== TAKEN, lost }
    },
    createInParts: (input) => createInParts(send, input),
    async get(name) {
      const first = await readRange(send, { name, from: 0 })
      if (first === null) return null
      const total = totalOf(first)
      const object = { sha256: first.headers.get(HASH), writer: first.headers.get(WRITER) }
      if (first.body.length >= total) return { bytes: first.body, ...object }
      const etag = first.headers.get('etag')
      const starts = Array.from({ length: Math.ceil(total / PART_BYTES) - 1 }, (_, at) => (at + 1) * PART_BYTES)
      const slots = createSlots(PARTS_AT_ONCE)
      const rest = await Promise.all(starts.map((from) => slots.use(() => readRange(send, { name, from, etag }))))
      const bytes = Buffer.concat([first.body, ...rest.map((part) => part?.body ?? Buffer.alloc(0))])
      if (bytes.length === total) return { bytes, ...object }
      throw unavailable(`Expected ${total} bytes from the artifact store, got ${bytes.length}`, { key: name })
    },
    async removeAll(names) {
      const listed = names.map((name) => `<Object><Key>${escapeXml(name)}</Key></Object>`).join('')
      const body = Buffer.from(
        `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>${listed}</Delete>`,
      )
      const answer = await send({
        method: 'POST',
        query: { delete: '' },
        // The only request for which S3 requires a checksum.
        headers: { 'content-md5': createHash('md5').update(body).digest('base64'), 'content-type': 'application/xml' },
        body,
      })
      const failed = textOf(answer.body.toString('utf8'), 'Error')
      if (failed === null) return
      throw unavailable(
        `Expected the artifact store to remove objects, but it says ${textOf(failed, 'Code') ?? 'no'}`,
        {
          key: textOf(failed, 'Key'),
        },
      )
    },
    async endUnfinished({ prefix, before }) {
      const answer = await send({ method: 'GET', query: { uploads: '', prefix } })
      const xml = answer.body.toString('utf8')
      const decode = listedTexts(xml)
      const old = textsOf(xml, 'Upload').flatMap((upload) => {
        const [key, id, begun] = [textOf(upload, 'Key'), textOf(upload, 'UploadId'), textOf(upload, 'Initiated')]
        return key !== null && id !== null && begun !== null && new Date(begun) < before
          ? [{ key: decode(key), id: unescapeXml(id) }]
          : []
      })
      for (const { key, id } of old) await abort(send, key, id)
      return old.length
    },
  }
}

/** Returns null if the object does not exist. */
async function readRange(
  send: SendS3,
  { name, from, etag = null }: { name: string; from: number; etag?: string | null },
): Promise<S3Answer | null> {
  const answer = await send({
    method: 'GET',
    key: name,
    headers: { range: `bytes=${from}-${from + PART_BYTES - 1}`, ...(etag === null ? {} : { 'if-match': etag }) },
    expected: [404, 416, TAKEN],
    isWhole: ({ headers, body }) => body.length === rangeLength(headers, body.length),
  })
  if (answer.status === 404) return null
  // An empty object has no first byte, so S3 refuses the range.
  if (answer.status === 416) return { ...answer, body: Buffer.alloc(0) }
  if (answer.status !== TAKEN) return answer
  throw unavailable('Expected an object of the artifact store not to change while it is read', { key: name })
}

/** Parses `bytes 0-9/18`. A server without ranges sends the whole object and omits the header. */
function rangeLength(headers: Headers, otherwise: number): number {
  const [, first, last] = /^bytes (\d{1,20})-(\d{1,20})\//.exec(headers.get('content-range') ?? '') ?? []
  return first === undefined || last === undefined ? otherwise : Number(last) - Number(first) + 1
}

function totalOf({ status, headers, body }: S3Answer): number {
  const total = /\/(\d{1,20})$/.exec(headers.get('content-range') ?? '')?.[1]
  return status === 206 && total !== undefined ? Number(total) : body.length
}

async function createLong(send: SendS3, input: CreateObjectInput): Promise<{ created: boolean; lost: number }> {
  const { name, bytes } = input
  if (bytes.byteLength > MAX_PARTS * PART_BYTES)
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected an artifact of at most ${(MAX_PARTS * PART_BYTES) / 2 ** 30} GiB`,
      details: { key: name, bytes: bytes.byteLength },
    })
  const head = await send({ method: 'HEAD', key: name, expected: [404] })
  // Only an optimisation: if the name is taken, the parts need not be sent.
  return head.status === 404 ? createInParts(send, input) : { created: false, lost: head.lost }
}

/** Sends all parts, then one conditional request that creates the object. Until then there is no object, and a failure leaves no
 *  parts. */
async function createInParts(
  send: SendS3,
  { name, bytes, sha256, writer }: CreateObjectInput,
): Promise<{ created: boolean; lost: number }> {
  const count = Math.ceil(bytes.byteLength / PART_BYTES)
  const begun = await send({
    method: 'POST',
    key: name,
    query: { uploads: '' },
    headers: { [HASH]: sha256, [WRITER]: writer },
  })
  const written = textOf(begun.body.toString('utf8'), 'UploadId')
  const id = written === null ? null : unescapeXml(written)
  if (id === null)
    throw unavailable('Expected the artifact store to begin an upload, but it returned no upload id', { key: name })
  try {
    const etags = await sendParts(send, { name, id, bytes, count })
    const parts = etags.map(
      (etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${escapeXml(etag)}</ETag></Part>`,
    )
    const done = await send({
      method: 'POST',
      key: name,
      query: { uploadId: id },
      headers: { 'if-none-match': '*', 'content-type': 'application/xml' },
      body: Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`),
      // 404: the upload has ended, and the answer that said so was lost.
      expected: [TAKEN, 404],
    })
    const isMade = done.status === 200 && !done.body.includes('<Error>')
    if (isMade) return { created: true, lost: done.lost }
    if (done.status === 200)
      throw unavailable('Expected the artifact store to finish an upload, but it did not', { key: name })
    await abort(send, name, id)
    return { created: false, lost: done.lost + (done.status === 404 ? 1 : 0) }
  } catch (error) {
    // A failure of the abort adds no information, and a later sweep aborts the upload.
    await abort(send, name, id).catch(() => undefined)
    throw error
  }
}

/** A failed part stops those that have not begun. Parts in flight are awaited, so that none arrives after the abort. */
async function sendParts(
  send: SendS3,
  { name, id, bytes, count }: { name: string; id: string; bytes: Uint8Array; count: number },
): Promise<string[]> {
  const slots = createSlots(PARTS_AT_ONCE)
  const failed = new AbortController()
  const sent = await Promise.allSettled(
    Array.from({ length: count }, (_, at) =>
      slots.use(async () => {
        failed.signal.throwIfAborted()
        try {
          const part = await send({
            method: 'PUT',
            key: name,
            query: { partNumber: String(at + 1), uploadId: id },
            body: bytes.subarray(at * PART_BYTES, (at + 1) * PART_BYTES),
          })
          return part.headers.get('etag') ?? ''
        } catch (error) {
          failed.abort(error)
          throw error
        }
      }),
    ),
  )
  failed.signal.throwIfAborted()
  return sent.flatMap((part) => (part.status === 'fulfilled' ? [part.value] : []))
}

async function abort(send: SendS3, name: string, id: string): Promise<void> {
  await send({ method: 'DELETE', key: name, query: { uploadId: id }, expected: [404] })
}
