import { randomUUID } from 'node:crypto'
import type { ArtifactRef, ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { LonghaulError, isLonghaulError } from '../../../contracts/errors.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import {
  checkFolder,
  checkKey,
  checkPrefix,
  PAGE_KEYS,
  TEMP_DIRECTORY,
  corrupt,
  openRecord,
  sealRecord,
  conflict,
  missingArtifact,
  requireReferenced,
} from '../store-rules.ts'
import { createObjects } from './s3-objects.ts'
import { encodeKey, type S3Location } from './s3-location.ts'
import { createBucketWeights, type LocalWeights } from '../weights/bucket-weights.ts'
import type { SendS3 } from './s3-requests.ts'
import { listedTexts, textOf, textsOf, unescapeXml } from './s3-xml.ts'
import { asStartError, noS3, unavailable } from './s3-errors.ts'

export interface S3StoreOptions {
  location: S3Location
  send: SendS3
  /** Where weights are cached; null for commands that only read records. @default null */
  place?: LocalWeights | null
}

/** The longest key that S3 accepts, including the prefix of the store. */
const MAX_KEY_BYTES = 1_024
/** Reads of one object whose bytes do not match its stored hash, before it counts as corrupt. A proxy may truncate an answer, but a
 *  disk must not. */
const HASH_TRIES = 3
/** Tries of a put that is refused because the object exists while the next read does not find it. */
const PUT_TRIES = 5

/**
 * Stores artifacts as objects of a bucket. Put-if-absent uses `If-None-Match: *`, which the server decides for all writers. The hash of
 * the bytes is stored with each object as metadata and checked on read, which detects truncated answers for every key.
 */
export function createS3Store({ location, send, place = null }: S3StoreOptions): ArtifactStore {
  const { bucket, prefix } = location
  const objects = createObjects(send)

  const nameOf = (key: string): string => {
    const name = `${prefix}${checkKey(key)}`
    if (Buffer.byteLength(name) <= MAX_KEY_BYTES) return name
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected an artifact key of at most ${MAX_KEY_BYTES} bytes with the prefix of the store`,
      details: { key: JSON.stringify(key.slice(0, 300)) },
    })
  }

  const read = async (key: string): Promise<Buffer | null> => (await readObject(key))?.bytes ?? null

  const readObject = async (key: string): Promise<{ bytes: Buffer; writer: string | null } | null> => {
    const name = nameOf(key)
    for (let tries = 1; ; tries++) {
      const object = await objects.get(name)
      if (object === null) return null
      // Objects that another program wrote have no hash of ours; references and records still verify them.
      if (object.sha256 === null || object.sha256 === sha256Hex(object.bytes)) return object
      if (tries === HASH_TRIES) throw corrupt(key, 'content differs from the hash that was stored with it')
    }
  }

  /** Returns true if this call wrote the object, even if the answer to the write was lost. */
  const create = async (key: string, bytes: Uint8Array): Promise<boolean> => {
    const writer = randomUUID()
    const { created, lost } = await objects.create({ name: nameOf(key), bytes, sha256: sha256Hex(bytes), writer })
    if (created || lost === 0) return created
    return (await readObject(key))?.writer === writer
  }

  const put = async (key: string, bytes: Uint8Array): Promise<ArtifactRef> => {
    const ref = { key, sha256: sha256Hex(bytes), bytes: bytes.byteLength }
    for (let tries = 1; tries <= PUT_TRIES; tries++) {
      if (await create(key, bytes)) return ref
      const stored = await read(key)
      // The object was removed in between.
      if (stored === null) continue
      if (sha256Hex(stored) === ref.sha256) return ref
      throw conflict(ref, stored)
    }
    throw unavailable('Expected the artifact store to return an object whose put it refuses', { key })
  }

  const readRecord = async <T extends object>(key: string): Promise<T | null> => {
    const bytes = await read(key)
    return bytes === null ? null : openRecord<T>(key, bytes)
  }

  const listOnce = async (query: Record<string, string>): Promise<string> => {
    const { body } = await send({
      method: 'GET',
      query: { 'list-type': '2', 'encoding-type': 'url', ...query },
      // A truncated page would hide keys.
      isWhole: ({ body: xml }) => xml.includes('</ListBucketResult>'),
    })
    return body.toString('utf8')
  }

  const listPage: ArtifactStore['listPage'] = async ({ prefix: below, after = '', limit = PAGE_KEYS }) => {
    let from: Record<string, string> = after === '' ? {} : { 'start-after': `${prefix}${after}` }
    for (;;) {
      const xml = await listOnce({
        prefix: `${prefix}${checkPrefix(below)}`,
        'max-keys': String(Math.min(limit, PAGE_KEYS)),
        ...from,
      })
      const decode = listedTexts(xml)
      const listed = textsOf(xml, 'Key').map((key) => decode(key).slice(prefix.length))
      const token = continuationOf(xml)
      // A bucket with many removed versions may give a page without a key, although others follow.
      if (listed.length > 0 || token === null) {
        return {
          keys: listed.filter((key) => !key.startsWith(`${TEMP_DIRECTORY}/`)),
          next: token === null ? null : (listed.at(-1) ?? null),
        }
      }
      from = { 'continuation-token': token }
    }
  }

  const pages = async function* (below: string): AsyncGenerator<string[]> {
    for (let after: string | null = ''; after !== null; ) {
      const page = await listPage({ prefix: below, after })
      yield page.keys
      after = page.next
    }
  }

  const store: Omit<ArtifactStore, 'path' | 'weights'> = {
    put,
    read,
    readRecord,
    async get(ref) {
      return requireReferenced(ref, await read(ref.key))
    },
    putRecord: (key, record) => put(key, sealRecord(record)),
    async claimRecord<T extends object>(key: string, record: T) {
      const bytes = sealRecord(record)
      if (await create(key, bytes)) return { record: openRecord<T>(key, bytes), won: true }
      const stored = await readRecord<T>(key)
      if (stored === null) throw missingArtifact(key)
      return { record: stored, won: false }
    },
    async list(below) {
      const keys: string[] = []
      for await (const page of pages(below)) keys.push(...page)
      // S3 orders by UTF-8 bytes and the directory store by UTF-16, which differ beyond U+FFFF.
      return keys.sort()
    },
    listPage,
    async folders(folder) {
      const below = `${prefix}${checkFolder(folder)}`
      const names: string[] = []
      for (let after = ''; ; ) {
        const xml = await listOnce({
          prefix: below,
          delimiter: '/',
          'max-keys': String(PAGE_KEYS),
          ...(after === '' ? {} : { 'continuation-token': after }),
        })
        const decode = listedTexts(xml)
        const groups = textsOf(xml, 'CommonPrefixes').map((group) => decode(textOf(group, 'Prefix') ?? ''))
        names.push(...groups.map((name) => name.slice(below.length, -1)))
        const next = continuationOf(xml)
        if (next === null) return names.sort()
        after = next
      }
    },
    async removeFolder(folder) {
      let removed = 0
      for await (const page of pages(checkFolder(folder))) {
        if (page.length > 0) await objects.removeAll(page.map(nameOf))
        removed += page.length
      }
      return removed
    },
    locate: (key) => `s3://${bucket}/${nameOf(key)}`,
    uri: (key) => `s3://${bucket}/${encodeKey(nameOf(key))}`,
  }
  return { ...store, ...createBucketWeights({ store, place }) }
}

/** Null on the last page of a listing. @throws LonghaulError `Artifact.Unavailable` */
function continuationOf(xml: string): string | null {
  if (textOf(xml, 'IsTruncated') !== 'true') return null
  const token = textOf(xml, 'NextContinuationToken')
  if (token !== null && token !== '') return unescapeXml(token)
  throw unavailable('Expected the artifact store to say how a listing goes on, got a page without it')
}

export interface CheckBucketInput {
  location: S3Location
  send: SendS3
}

/**
 * Tests, before anything is written, the right to list and the guarantee that records depend on: of two writers of one key, the second is
 * refused. A server without `If-None-Match` accepts both, and two hosts would run the same turn.
 * @throws LonghaulError `Config.Invalid` for credentials, bucket, region or a server without conditional writes; `Artifact.Unavailable`
 */
export async function checkBucket({ location, send }: CheckBucketInput): Promise<void> {
  const objects = createObjects(send)
  const name = `${location.prefix}${TEMP_DIRECTORY}/check-${randomUUID()}`
  const input = (text: string) => ({ name, bytes: Buffer.from(text), sha256: sha256Hex(text), writer: text })
  const stored = async (): Promise<string | null> => (await objects.get(name))?.bytes.toString() ?? null
  try {
    // Reading an absent record and every listing need this right, which no put shows to be missing.
    await send({ method: 'GET', query: { 'list-type': '2', 'max-keys': '1', prefix: location.prefix } })
    await objects.create(input('first'))
    try {
      const second = await objects.create(input('second'))
      const found = await stored()
      if (found !== 'first' && found !== 'second' && second.created) {
        throw noS3({ server: new URL(location.base).origin, got: 'other bytes than those stored there' })
      }
      if (second.created) throw unconditional('it accepted a second put of one key')
      if (found === null) throw unconditional('it refused the first put as well')
      if (found !== 'first') throw unconditional('the second put replaced the first')
      const inParts = await objects.createInParts(input('third'))
      if (inParts.created || (await stored()) !== 'first') throw unconditional('it accepted a second put in parts')
    } finally {
      // Workers never remove records, so missing permission to remove is not an error.
      await objects.removeAll([name]).catch(() => undefined)
    }
  } catch (error) {
    const details = isLonghaulError(error) ? error.details : {}
    if (details['status'] === 501 || /^(?:NotImplemented|MethodNotAllowed)$/.test(String(details['code'])))
      throw unconditional('it does not implement the request')
    throw asStartError(error)
  }
}

function unconditional(got: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the artifact store to refuse a second put with If-None-Match: *, ${got}. Use a server with conditional writes: Amazon S3 has them, and newer versions of others`,
  })
}
