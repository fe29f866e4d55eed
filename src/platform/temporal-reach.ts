import { X509Certificate } from 'node:crypto'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import type { TemporalCredentials, TemporalSettings } from './temporal-settings.ts'

const PROBE_TIMEOUT_MS = 3_000

/** What a probe of the address found below gRPC, whose client reports all of these as "deadline exceeded". */
export interface Reach {
  /** False if waiting cannot help: the address, a certificate or the kind of connection is wrong. */
  mayAnswerLater: boolean
  /** A clause: `nothing listens there`. */
  finding: string
  /** Whether the clause says what to change, so that no general advice belongs behind it. */
  namesRemedy: boolean
}

/** The first bytes of an HTTP/2 client and its empty settings (RFC 9113, §3.4), which a server answers if it accepts the client. */
const HTTP2_GREETING = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
])

/** Probes a server that did not answer a gRPC call. Takes at most six seconds and never throws. */
export async function probeTemporal({ address, credentials }: TemporalSettings): Promise<Reach> {
  const { host, port } = splitAddress(address)
  const heard = await firstEvent(connectTcp({ host, port }), 'connect')
  if (heard !== null) return refusedConnection(heard)
  const tls = tlsOf(credentials)
  // Without TLS in the settings this only detects whether the server uses it.
  if (tls === null) {
    const shaken = await firstEvent(
      connectTls({ host, port, ALPNProtocols: ['h2'], rejectUnauthorized: false }),
      'secureConnect',
    )
    if (shaken === null || shaken.code === 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED') {
      return settled(`it speaks TLS: set TEMPORAL_TLS=true, ${WANTS_CERTIFICATE}`)
    }
    const plain = connectTcp({ host, port }, () => plain.write(HTTP2_GREETING))
    return (await isWebServer(plain)) ? WITHOUT_GRPC : mayAnswer('it accepts connections and does not answer')
  }
  const name = tls.serverNameOverride ?? host
  const pair = tls.clientCertPair
  const socket = connectTls({
    host,
    port,
    ALPNProtocols: ['h2'],
    // An IP address is no server name (RFC 6066), and Node warns about it.
    ...(isIP(name) === 0 ? { servername: name } : {}),
    ...(tls.serverRootCACertificate === undefined ? {} : { ca: Buffer.from(tls.serverRootCACertificate) }),
    ...(pair === undefined ? {} : { cert: Buffer.from(pair.crt), key: Buffer.from(pair.key) }),
  })
  let isShaken = false
  socket.once('secureConnect', () => {
    isShaken = true
    socket.write(HTTP2_GREETING)
  })
  // A server refuses a client's certificate after the handshake (TLS 1.3), so only its first bytes prove that it accepted it.
  const first = firstBytes(socket)
  const answered = await firstEvent(socket, 'data')
  if (answered === null) {
    return (await first).startsWith('HTTP/1.')
      ? WITHOUT_GRPC
      : mayAnswer('it accepts connections and does not answer calls in time')
  }
  const untimely = pair === undefined ? null : untimelyCertificate(pair.crt)
  if (untimely !== null) return settled(untimely)
  return isShaken && answered.code === 'ECONNRESET'
    ? endedAfterHandshake(pair !== undefined)
    : failedHandshake(answered)
}

/** Null for a certificate that is valid now. */
function untimelyCertificate(certificate: Uint8Array): string | null {
  const { validFromDate, validToDate } = new X509Certificate(certificate)
  if (validToDate.getTime() < Date.now()) {
    return `the client's certificate has expired on ${validToDate.toISOString()}: renew it (${CERTIFICATE_NAMES})`
  }
  return validFromDate.getTime() > Date.now()
    ? `the client's certificate is not valid before ${validFromDate.toISOString()}: compare the clocks, or use another (${CERTIFICATE_NAMES})`
    : null
}

function settled(finding: string): Reach {
  return { mayAnswerLater: false, finding, namesRemedy: true }
}

function mayAnswer(finding: string): Reach {
  return { mayAnswerLater: true, finding, namesRemedy: false }
}

/** Temporal's UI is such a web server: its port is easily taken for the server's. */
const WITHOUT_GRPC = settled(
  "a server without gRPC answers there, perhaps Temporal's UI: write the port of the server's gRPC, 7233 by default, in TEMPORAL_ADDRESS",
)

/** Destroys the socket. */
async function isWebServer(socket: Socket): Promise<boolean> {
  const first = firstBytes(socket)
  return (await firstEvent(socket, 'data')) === null && (await first).startsWith('HTTP/1.')
}

function firstBytes(socket: Socket): Promise<string> {
  return new Promise((resolve) => socket.once('data', (bytes: Buffer) => resolve(bytes.toString('latin1'))))
}

/** Some servers close the connection instead of sending an alert (TLS 1.3). */
function endedAfterHandshake(hasCertificate: boolean): Reach {
  const finding = hasCertificate
    ? `it ended the connection after the handshake, as a server does that refuses the client's certificate: give one of an authority that it knows (${CERTIFICATE_NAMES})`
    : `it ended the connection after the handshake, as a server does that wants a client certificate: set ${CERTIFICATE_NAMES}`
  return settled(finding)
}

type TlsSettings = Exclude<NonNullable<TemporalCredentials['tls']>, boolean>

const CERTIFICATE_NAMES = 'TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH'
const WANTS_CERTIFICATE = `and, where it wants a client certificate, ${CERTIFICATE_NAMES}`

function tlsOf({ tls, apiKey }: TemporalCredentials): TlsSettings | null {
  if (tls === undefined) return apiKey === undefined ? null : {}
  if (typeof tls === 'boolean') return tls ? {} : null
  return tls
}

/** `host:port`, with brackets around an IPv6 address. The default port is Temporal's. */
function splitAddress(address: string): { host: string; port: number } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(address) ?? []
  return { host: bracketed ?? plain ?? address, port: Number(port ?? 7233) }
}

type SocketError = Error & { code?: string }

/** Null after the event; otherwise what ended the connection before it. */
function firstEvent(socket: Socket, event: 'connect' | 'secureConnect' | 'data'): Promise<SocketError | null> {
  return new Promise((resolve) => {
    const end = (error: SocketError | null): void => {
      resolve(error)
      socket.destroy()
    }
    const failed = (code: string) => (): void => end(Object.assign(new Error(code), { code }))
    socket.once(event, () => end(null))
    socket.setTimeout(PROBE_TIMEOUT_MS, failed('ETIMEDOUT'))
    socket.once('close', failed('ECONNRESET'))
    socket.on('error', end)
  })
}

function refusedConnection({ code, message }: SocketError): Reach {
  const findings: Record<string, string> = {
    ECONNREFUSED: 'nothing listens there',
    ENOTFOUND: 'the name of the host is unknown',
    EAI_AGAIN: 'the name of the host could not be looked up',
    ETIMEDOUT: 'no connection came about',
    EHOSTUNREACH: 'no route leads there',
    ENETUNREACH: 'no route leads there',
  }
  return { mayAnswerLater: false, finding: findings[code ?? ''] ?? message, namesRemedy: false }
}

/** OpenSSL's own reason, without its numbers and files: `…:SSL routines:ssl3_read_bytes:tlsv1 alert no protocol:../deps/…`. */
function alertOf(message: string): string {
  return /:SSL routines:[^:]*:([^:]+):/.exec(message)?.[1] ?? message.split('\n')[0] ?? ''
}

function failedHandshake({ code = '', message }: SocketError): Reach {
  const authority = 'name its certificate authority in TEMPORAL_TLS_SERVER_CA_CERT_PATH'
  const findings: Record<string, string> = {
    CERT_HAS_EXPIRED: "the server's certificate has expired: it needs a new one",
    CERT_NOT_YET_VALID: "the server's certificate is not valid yet: compare the clocks",
    ERR_TLS_CERT_ALTNAME_INVALID: `${message.replace(/: *$/, '')}: name what the certificate is for in TEMPORAL_TLS_SERVER_NAME`,
    SELF_SIGNED_CERT_IN_CHAIN: `the server's certificate is from an unknown authority: ${authority}`,
    DEPTH_ZERO_SELF_SIGNED_CERT: `the server's certificate is self-signed: ${authority}`,
    UNABLE_TO_VERIFY_LEAF_SIGNATURE: `the server's certificate is from an unknown authority: ${authority}`,
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY: `the server's certificate is from an unknown authority: ${authority}`,
    ERR_SSL_WRONG_VERSION_NUMBER: 'it speaks no TLS: set TEMPORAL_TLS=false, or use the address that does',
    ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it speaks no TLS: set TEMPORAL_TLS=false, or use the address that does',
    ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: `it wants a client certificate: set ${CERTIFICATE_NAMES}`,
    ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE: `it refuses the handshake, as a server without the client's certificate does: set ${CERTIFICATE_NAMES}`,
    ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: `it does not know the authority of the client's certificate (${CERTIFICATE_NAMES})`,
    ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: `it refuses the client's certificate (${CERTIFICATE_NAMES})`,
    ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN: `it refuses the client's certificate (${CERTIFICATE_NAMES})`,
    ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED: `the client's certificate has expired (${CERTIFICATE_NAMES})`,
    ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: WITHOUT_GRPC.finding,
    ECONNRESET: 'it speaks no TLS, or ended the handshake: see its log',
    ETIMEDOUT: 'it accepts connections and does not answer the TLS handshake',
  }
  // OpenSSL 3.5 renamed the alerts of TLS 1.2.
  const known = findings[code.replace('ERR_SSL_SSL/TLS_', 'ERR_SSL_SSLV3_')]
  return {
    mayAnswerLater: code === 'ETIMEDOUT',
    finding: known ?? `the TLS handshake failed: ${alertOf(message)}`,
    namesRemedy: known !== undefined && code !== 'ETIMEDOUT',
  }
}

type Place = Pick<TemporalSettings, 'address' | 'namespace'>

/** gRPC status codes. */
const NOT_FOUND = 5
const PERMISSION_DENIED = 7
const UNAUTHENTICATED = 16

/** Of a failed call, wherever the SDK puts it; null for anything else. */
export function grpcStatus(error: unknown): number | null {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    const { code } = link as { code?: unknown }
    if (typeof code === 'number') return code
  }
  return null
}

/** The error for a call with which a server answered that it does not know the namespace or refuses the caller; null for any other. */
export function explainAnswer(place: Place, cause: unknown): LonghaulError | null {
  const status = grpcStatus(cause)
  if (status === NOT_FOUND) return unknownNamespace(place, cause)
  return status === PERMISSION_DENIED || status === UNAUTHENTICATED ? refusedNamespace(place, cause) : null
}

export function refusedNamespace({ address, namespace }: Place, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Temporal.Refused',
    message: `The Temporal server at ${address} refuses this process access to the namespace ${namespace}: set TEMPORAL_API_KEY, or a client certificate, that is valid for this namespace`,
    cause,
  })
}

export function unknownNamespace({ address, namespace }: Place, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `The Temporal server at ${address} has no namespace ${namespace}. Set LONGHAUL_NAMESPACE or TEMPORAL_NAMESPACE, or create it: temporal operator namespace create ${namespace}`,
    cause,
  })
}

const START_ONE =
  'Start the local stack with "longhaul up", or set TEMPORAL_ADDRESS or TEMPORAL_PROFILE (docs/operations.md, "Another Temporal server")'

export function unreachableTemporal(address: string, reach: Reach, cause: unknown): LonghaulError {
  const { finding, namesRemedy } = reach
  const error = new LonghaulError({
    code: 'Temporal.Unreachable',
    message: `No Temporal server answers at ${address}: ${finding}${namesRemedy ? '' : `. ${START_ONE}`}`,
    cause,
  })
  // Added later, because the facts in the message are for the operator.
  error.details['namesRemedy'] = namesRemedy
  return error
}

/** Whether the message of a failed connection says which setting to change. */
export function namesRemedy(error: unknown): boolean {
  if (!isLonghaulError(error)) return false
  return error.code === 'Temporal.Unreachable' ? error.details['namesRemedy'] === true : error.code !== 'Unexpected'
}
