import { LonghaulError } from '../../../contracts/errors.ts'
import { requireHttpAddress } from '../../../platform/quote-address.ts'
import { checkKey } from '../store-rules.ts'

/** Where a bucket is, and how its addresses are formed. */
export interface S3Location {
  bucket: string
  /** Empty, or ending with a slash. */
  prefix: string
  region: string
  /** Base address of the bucket: requests go to `<base>/<encoded key>`. */
  base: string
}

const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]{0,30}):\/\//
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/

/** Returns true for `s3://…` and false for a directory. @throws LonghaulError `Config.Invalid` for any other address */
export function namesBucket(text: string): boolean {
  const scheme = SCHEME.exec(text)?.[1]
  if (scheme === undefined) return false
  if (scheme === 's3') return true
  throw invalid(`got an address that begins with ${scheme}://`)
}

/**
 * Parses `s3://bucket/prefix`, with the endpoint and region from the variables that every S3 program reads. Without an endpoint the
 * address is Amazon's. With one, the bucket is part of the path, as other servers expect it.
 * @throws LonghaulError `Config.Invalid`; never with the text in it, which may contain a key by mistake
 */
export function parseS3Location(text: string, env: NodeJS.ProcessEnv = process.env): S3Location {
  const rest = text.slice('s3://'.length).replace(/\/+$/, '')
  const [bucket = '', ...segments] = rest.split('/')
  if (bucket.includes('@'))
    throw invalid('got an address with credentials, which belong into AWS_ACCESS_KEY_ID and the like')
  if (!BUCKET.test(bucket) || bucket.includes('..'))
    throw invalid('got a bucket that S3 does not allow: 3 to 63 of a-z 0-9 . -')
  const prefix = segments.length === 0 ? '' : `${prefixOf(segments)}/`
  const region = said(env['AWS_REGION']) ?? said(env['AWS_DEFAULT_REGION']) ?? 'us-east-1'
  // It becomes part of a host's name and of a header.
  if (!/^[\w-]{1,63}$/.test(region)) throw misset('AWS_REGION (or AWS_DEFAULT_REGION) to be a region such as eu-west-1')
  const endpoint = said(env['AWS_ENDPOINT_URL_S3']) ?? said(env['AWS_ENDPOINT_URL'])
  return { bucket, prefix, region, base: baseOf({ bucket, region, endpoint }) }
}

/** Without the text in the error, as above. */
function prefixOf(segments: readonly string[]): string {
  try {
    return checkKey(segments.join('/'))
  } catch {
    throw invalid('got a prefix that holds an empty segment, ".", ".." or a character that no key may have')
  }
}

function baseOf({ bucket, region, endpoint }: { bucket: string; region: string; endpoint: string | null }): string {
  if (endpoint === null) {
    const host = `s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
    // A wildcard certificate covers only one label below the host.
    return bucket.includes('.') ? `https://${host}/${bucket}` : `https://${bucket}.${host}`
  }
  const text = requireHttpAddress({
    name: 'AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL)',
    text: endpoint,
    example: 'https://s3.example.org',
  })
  const url = new URL(text)
  return `${url.origin}${url.pathname.replace(/\/$/, '')}/${bucket}`
}

/** Encodes each segment as the signature requires: everything except unreserved characters as %XX. */
export function encodeKey(key: string): string {
  return key.split('/').map(encodeText).join('/')
}

export function encodeText(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

function said(value: string | undefined): string | null {
  return value === undefined || value === '' ? null : value
}

/** Without the value, in which a key may stand by mistake. */
function misset(expected: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message: `Expected ${expected}, got another text` })
}

function invalid(got: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected LONGHAUL_ARTIFACTS to be a directory or s3://BUCKET or s3://BUCKET/PREFIX, ${got}`,
  })
}
