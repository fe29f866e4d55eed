import { oneLine } from '../../../domain/hostile-text.ts'
import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import { textOf } from './s3-xml.ts'

type Facts = Record<string, string | number | boolean | null>

/** The store is unreachable or reports a temporary failure, so a retry may succeed. */
export function unavailable(message: string, details: Facts = {}): LonghaulError {
  return new LonghaulError({ code: 'Artifact.Unavailable', message, details })
}

/** No retry helps until an operator changes something. A run in progress waits for that as it does during an outage. */
export function needsPerson(message: string, details: Facts = {}): LonghaulError {
  const error = unavailable(message, { ...details })
  // Added later, because it is for this program, and the facts in the message are for the operator.
  error.details['operator'] = true
  return error
}

interface NoS3Input {
  /** Origin of the server's address. */
  server: string
  got: string
  facts?: Facts
}

/** The error for an answer that is not from S3, but from a web server, a proxy or a login page. */
export function noS3({ server, got, facts = {} }: NoS3Input): LonghaulError {
  return needsPerson(
    `Expected an S3 server at ${server}, got ${got}: correct AWS_ENDPOINT_URL_S3, or check for a proxy in between`,
    facts,
  )
}

const UNKNOWN_AUTHORITY = 'is from an unknown authority: name its certificates in NODE_EXTRA_CA_CERTS'
const OTHER_TLS =
  'speaks no version of TLS that this machine accepts: update it, or name another address in AWS_ENDPOINT_URL_S3'
const WANTS_CERTIFICATE =
  'refuses the handshake, as a server does that wants a client certificate: Longhaul sends none, so name an address without one in AWS_ENDPOINT_URL_S3'
const NO_TLS = 'speaks no TLS: write http:// in AWS_ENDPOINT_URL_S3, or the port that does'

/** Failures of a connection that only an operator can fix, by Node's error code. */
const TLS_FAULTS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'has a certificate that has expired: renew it',
  CERT_NOT_YET_VALID: 'has a certificate that is not valid yet: compare the clocks',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'has a certificate for another name: write the name that it is for in AWS_ENDPOINT_URL_S3',
  DEPTH_ZERO_SELF_SIGNED_CERT: `has a certificate that ${UNKNOWN_AUTHORITY}`,
  SELF_SIGNED_CERT_IN_CHAIN: `has a certificate that ${UNKNOWN_AUTHORITY}`,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: `has a certificate that ${UNKNOWN_AUTHORITY}`,
  UNABLE_TO_GET_ISSUER_CERT: `has a certificate that ${UNKNOWN_AUTHORITY}`,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: `has a certificate that ${UNKNOWN_AUTHORITY}`,
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: WANTS_CERTIFICATE,
  // Two names of one alert: OpenSSL 3.5 has the second.
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE: WANTS_CERTIFICATE,
  'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE': WANTS_CERTIFICATE,
  ERR_SSL_UNSUPPORTED_PROTOCOL: OTHER_TLS,
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: OTHER_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  // In the words of the client, which connects to no port of another protocol.
  'bad port': 'has a port at which no client of HTTP asks: write the right one in AWS_ENDPOINT_URL_S3',
}

interface FailedConnectionInput {
  /** Node's error code, or a text. */
  got: string
  server: string
  facts: Facts
}

/** @returns the error, and whether a retry may succeed without an operator */
export function failedConnection({ got, server, facts }: FailedConnectionInput): {
  error: LonghaulError
  mayPass: boolean
} {
  const fault = TLS_FAULTS[got]
  if (fault !== undefined)
    return { error: needsPerson(`The artifact store at ${server} ${fault} (${got})`, facts), mayPass: false }
  const remedy = /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/.test(got)
    ? ': start it, or correct AWS_ENDPOINT_URL_S3'
    : ''
  const message = `Expected an answer of the artifact store, got ${got}${remedy}`
  return { error: unavailable(message, { ...facts, server }), mayPass: true }
}

/** Converts an error into the one with which a worker refuses to start and a command ends, because neither waits for an operator. */
export function asStartError(error: unknown): unknown {
  if (!isLonghaulError(error) || error.details['operator'] !== true) return error
  return new LonghaulError({ code: 'Config.Invalid', message: error.message, cause: error })
}

const BODY_CHARACTERS = 4_000
const TEXT_CHARACTERS = 200

/** Returns code and message of an answer. The rest of it may repeat the request, its signature and the name of the key. */
export function readRefusal(body: Uint8Array): { code: string; message: string } {
  const xml = Buffer.from(body.subarray(0, BODY_CHARACTERS)).toString('utf8')
  return {
    code: (textOf(xml, 'Code') ?? '').slice(0, TEXT_CHARACTERS),
    message: oneLine(textOf(xml, 'Message') ?? '', TEXT_CHARACTERS),
  }
}

interface RefusalInput {
  status: number
  /** Empty if the answer holds no S3 error document. */
  code: string
  message: string
  store: string
  key: string
  region: string
  server: string
  /** The permission that the request needs, such as `s3:PutObject`. */
  right: string
  /** S3 describes every error, except in answers to HEAD. */
  hasText: boolean
}

/** Codes about who asks, whatever their status: versitygw answers 404 to a key that it does not know. */
const TOKEN = /Token/i
const IDENTITY = /AccessKey|UserNotFound|Signature|Credential/i
/** Codes of a full disk or account, which several servers answer with 403. */
const NO_ROOM = /Quota|Storage(?:Full|Limit)|InsufficientStorage/i

/** All of them, so that a policy is written once. */
const RIGHTS = 's3:GetObject, PutObject, DeleteObject, AbortMultipartUpload, ListBucket and ListBucketMultipartUploads'

/** The error for an answer that a retry does not change. */
export function refusalOf({
  status,
  code,
  message,
  store,
  key,
  region,
  server,
  right,
  hasText,
}: RefusalInput): LonghaulError {
  const facts = { store, key, status, code }
  if (hasText && code === '') return noS3({ server, got: `${status} without an S3 error document`, facts })
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
  const refused = (remedy: string): LonghaulError =>
    needsPerson(`Expected the artifact store to accept the credentials of this machine (${said}): ${remedy}`, facts)
  if (TOKEN.test(code)) return refused('renew the session token, in AWS_SESSION_TOKEN or where AWS_PROFILE names it')
  if (IDENTITY.test(code)) return refused('correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE')
  if (status === 507 || NO_ROOM.test(code))
    return needsPerson(
      `Expected room in the artifact store, but it answered ${status} (${said}): free some, or raise its quota`,
      facts,
    )
  if (code.startsWith('KMS.')) return refused("let its account use the key that encrypts the bucket's objects")
  if (status === 401 || status === 403)
    return refused(`they need ${right} for this request, and in all ${RIGHTS} (docs/object-store.md)`)
  if ((status >= 300 && status < 400) || code === 'AuthorizationHeaderMalformed')
    return needsPerson(
      `Expected the bucket of the artifact store in region ${region}, but it is elsewhere (${said}): set AWS_REGION`,
      facts,
    )
  if (status === 405 || status === 501 || code === 'NotImplemented')
    return needsPerson(
      `Expected the artifact store to implement conditional writes and uploads in parts, but it answered ${status} (${said}): use a server that has them, such as Amazon S3 or a newer version of this one`,
      facts,
    )
  return needsPerson(`Expected the artifact store to accept a request, but it answered ${status} (${said})`, facts)
}
