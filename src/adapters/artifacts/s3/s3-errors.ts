import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import { textOf } from './s3-xml.ts'

type Facts = Record<string, string | number | boolean | null>

/** The store is away, or says that it will be back: worth another try. */
export function unavailable(message: string, details: Facts = {}): LonghaulError {
  return new LonghaulError({ code: 'Artifact.Unavailable', message, details })
}

/** No retry helps until an operator changes something. A run under way waits for that as for any outage. */
export function needsPerson(message: string, details: Facts = {}): LonghaulError {
  return unavailable(message, { ...details, operator: true })
}

/** The error with which a worker refuses to start, instead of waiting for an operator. */
export function asStartError(error: unknown): unknown {
  if (!isLonghaulError(error) || error.details['operator'] !== true) return error
  return new LonghaulError({ code: 'Config.Invalid', message: error.message, cause: error })
}

const BODY_CHARACTERS = 4_000
const TEXT_CHARACTERS = 200

/** Code and message of an answer: the rest of it may repeat the request, its signature and the name of the key. */
export function readRefusal(body: Uint8Array): { code: string; message: string } {
  const xml = Buffer.from(body.subarray(0, BODY_CHARACTERS)).toString('utf8')
  return {
    code: (textOf(xml, 'Code') ?? '').slice(0, TEXT_CHARACTERS),
    message: (textOf(xml, 'Message') ?? '').slice(0, TEXT_CHARACTERS).replaceAll(/[\p{Cc}\s]+/gu, ' '),
  }
}

interface RefusalInput {
  status: number
  code: string
  message: string
  store: string
  key: string
  region: string
}

/** The error for an answer that repetition does not change. */
export function refusalOf({ status, code, message, store, key, region }: RefusalInput): LonghaulError {
  const facts = { store, key, status, code }
  const said = message === '' ? code : `${code}: ${message}`
  if (code === 'NoSuchBucket')
    return needsPerson(
      'Expected the bucket of the artifact store to exist: create it, or name another in LONGHAUL_ARTIFACTS',
      facts,
    )
  if (code === 'RequestTimeTooSkewed')
    return needsPerson(
      'Expected the clock of this machine to agree with the artifact store’s within 15 minutes: set it',
      facts,
    )
  if (status === 401 || status === 403)
    return needsPerson(
      `Expected the artifact store to accept the credentials of this machine (${said}). They need s3:GetObject, PutObject, DeleteObject, AbortMultipartUpload and ListBucket`,
      facts,
    )
  if ((status >= 300 && status < 400) || code === 'AuthorizationHeaderMalformed')
    return needsPerson(
      `Expected the bucket of the artifact store in region ${region}, it is elsewhere (${said}): set AWS_REGION`,
      facts,
    )
  return needsPerson(`Expected the artifact store to accept a request, it answered ${status} (${said})`, facts)
}
