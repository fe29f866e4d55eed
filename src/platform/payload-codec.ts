import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { Payload, PayloadCodec } from '@temporalio/common'
import proto from '@temporalio/proto'
import { LonghaulError } from '../contracts/errors.ts'
import { errnoOf } from './files.ts'

// The package is CommonJS: its exports arrive as one default export.
const { Payload: PayloadMessage } = proto.temporal.api.common.v1

/** A 256-bit key and its id in payloads. */
export interface CodecKey {
  id: string
  secret: Uint8Array
}

/** The same metadata as in Temporal's published examples, so that tools recognise it. */
const ENCODING = 'binary/encrypted'
const CIPHER = 'AES-256-GCM'

/** First byte of the data: whether the encrypted text is compressed. Nonce, ciphertext and tag follow. */
const PLAIN = 1
const PACKED = 2
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Below this size gzip's frame costs more than it saves. */
const WORTH_PACKING_BYTES = 256
/** Temporal refuses payloads above 2 MiB, so Longhaul never made one that decompresses to more. */
const MOST_UNPACKED_BYTES = 64 * 1024 ** 2

/**
 * Encrypts every payload (inputs, results, heartbeats, memos, failures) with the first key and decrypts with all of them, so a key is
 * rotated by putting a new one on top. Unencrypted payloads are read as they are, so earlier histories continue.
 * Key id and compression flag are authenticated, so neither can be changed. Without any key it writes payloads as they are, and names
 * the missing variable for an encrypted one, which the SDK would call an unknown encoding.
 */
export function createPayloadCodec(keys: readonly CodecKey[]): PayloadCodec {
  const [current] = keys
  const byId = new Map(keys.map((key) => [key.id, key]))
  return {
    encode: (payloads) =>
      Promise.resolve(current === undefined ? payloads : payloads.map((payload) => encrypt(payload, current))),
    decode: (payloads) =>
      Promise.resolve(payloads.map((payload) => (isEncrypted(payload) ? decrypt(payload, byId) : payload))),
  }
}

function encrypt(payload: Payload, { id, secret }: CodecKey): Payload {
  const message = Buffer.from(PayloadMessage.encode(payload).finish())
  const packed = message.length < WORTH_PACKING_BYTES ? message : gzipSync(message)
  const isPacked = packed.length < message.length
  const kind = Buffer.from([isPacked ? PACKED : PLAIN])
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', secret, nonce)
  cipher.setAAD(Buffer.concat([kind, Buffer.from(id)]))
  const sealed = Buffer.concat([cipher.update(isPacked ? packed : message), cipher.final()])
  return {
    metadata: {
      encoding: Buffer.from(ENCODING),
      'encryption-cipher': Buffer.from(CIPHER),
      'encryption-key-id': Buffer.from(id),
    },
    data: Buffer.concat([kind, nonce, sealed, cipher.getAuthTag()]),
  }
}

function isEncrypted({ metadata }: Payload): boolean {
  return textOf(metadata?.['encoding']) === ENCODING
}

function decrypt({ metadata, data }: Payload, keys: ReadonlyMap<string, CodecKey>): Payload {
  const id = textOf(metadata?.['encryption-key-id'])
  const key = keys.get(id)
  if (key === undefined) {
    const remedy =
      keys.size === 0
        ? 'and LONGHAUL_CODEC_KEYS is not set: name the file that holds this key'
        : 'which LONGHAUL_CODEC_KEYS lacks: keep old keys below the new one while histories with them live'
    throw unreadable(`is encrypted with the key ${JSON.stringify(id)}, ${remedy}`)
  }
  const bytes = Buffer.from(data ?? [])
  const kind = bytes.subarray(0, 1)
  const nonce = bytes.subarray(1, 1 + NONCE_BYTES)
  const sealed = bytes.subarray(1 + NONCE_BYTES, -TAG_BYTES)
  let message: Uint8Array
  try {
    const decipher = createDecipheriv('aes-256-gcm', key.secret, nonce, { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.concat([kind, Buffer.from(id)]))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    message = Buffer.concat([decipher.update(sealed), decipher.final()])
    if (kind[0] === PACKED) message = gunzipSync(message, { maxOutputLength: MOST_UNPACKED_BYTES })
  } catch (cause) {
    throw unreadable(
      `cannot be decrypted with the key ${JSON.stringify(id)}: it was altered, or another secret goes by that name`,
      cause,
    )
  }
  return PayloadMessage.decode(message)
}

function unreadable(how: string, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `A payload of Temporal's history ${how}`,
    ...(cause === undefined ? {} : { cause }),
  })
}

function textOf(bytes: Uint8Array | null | undefined): string {
  return Buffer.from(bytes ?? []).toString()
}

/**
 * The keys of the file that LONGHAUL_CODEC_KEYS names, the current one first: a line `ID BASE64` each, `#` begins a comment.
 * Null if the variable is not set; payloads are then not encrypted.
 * @throws LonghaulError `Config.Invalid`, which shows no secret
 */
export function readCodecKeys(env: NodeJS.ProcessEnv = process.env): readonly [CodecKey, ...CodecKey[]] | null {
  const path = env['LONGHAUL_CODEC_KEYS'] ?? ''
  if (path === '') return null
  const lines = readLines(path)
  const keys = lines.map(({ text, number }) => readKey(text, `${path}, line ${number}`))
  const [first, ...others] = keys
  if (first === undefined) throw invalid(`Expected a line "ID BASE64" in ${path} (LONGHAUL_CODEC_KEYS), got none`)
  const twice = keys.find(({ id }, at) => keys.findIndex((other) => other.id === id) < at)
  if (twice !== undefined) throw invalid(`Expected each key of ${path} once, got ${JSON.stringify(twice.id)} twice`)
  return [first, ...others]
}

function readLines(path: string): { text: string; number: number }[] {
  return readStart(path)
    .split('\n')
    .map((text, at) => ({ text: text.trim(), number: at + 1 }))
    .filter(({ text }) => text !== '' && !text.startsWith('#'))
}

/** Far more keys than rotations leave. A device has no end. */
const MAX_KEY_FILE_BYTES = 64 * 1024

/** 32 bytes in base64 or hexadecimal: a key that stands where its file should, and that no message may repeat. */
const HOLDS_KEY = /[A-Za-z0-9+/_-]{43}=|(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/i

function readStart(path: string): string {
  const bytes = Buffer.alloc(MAX_KEY_FILE_BYTES + 1)
  let size = 0
  try {
    const file = openSync(path, 'r')
    try {
      for (let read = -1; read !== 0 && size < bytes.length; size += read) {
        read = readSync(file, bytes, size, bytes.length - size, null)
      }
    } finally {
      closeSync(file)
    }
  } catch (cause) {
    if (HOLDS_KEY.test(path)) {
      throw invalid(
        'Expected LONGHAUL_CODEC_KEYS to be the path of a file of keys, got a key itself: write it into a file',
      )
    }
    throw invalid(
      `Expected a readable file of keys at ${path} (LONGHAUL_CODEC_KEYS), got ${errnoOf(cause) ?? String(cause)}`,
      cause,
    )
  }
  if (size <= MAX_KEY_FILE_BYTES) return bytes.toString('utf8', 0, size)
  throw invalid(`Expected a file of keys at ${path} (LONGHAUL_CODEC_KEYS), got more than ${MAX_KEY_FILE_BYTES} bytes`)
}

function readKey(text: string, where: string): CodecKey {
  const [id = '', base64 = '', ...rest] = text.split(/\s+/)
  const secret = Buffer.from(base64, 'base64')
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(id) || rest.length > 0) {
    throw invalid(`Expected "ID BASE64" in ${where}, with an id of letters, digits, ".", "_" and "-"`)
  }
  // Node stops at a padding and skips foreign characters: another text than the intended one would become the key.
  if (secret.length !== 32 || secret.toString('base64').replace(/=+$/, '') !== base64.replace(/=+$/, '')) {
    throw invalid(
      `Expected 32 bytes in base64 for the key ${id} in ${where}, got ${secret.length === 32 ? 'other characters' : `${secret.length} bytes`}; make one: openssl rand -base64 32`,
    )
  }
  return { id, secret }
}

function invalid(message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, ...(cause === undefined ? {} : { cause }) })
}
