import { X509Certificate } from 'node:crypto'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { TemporalCredentials, TemporalSettings } from './temporal-settings.ts'

const PROBE_TIMEOUT_MS = 3_000

/** What a probe of the address found below gRPC, whose client reports all of these as "deadline exceeded". */
export interface Reach {
  /** False if waiting cannot help: the address, a certificate or the kind of connection is wrong. */
  mayAnswerLater: boolean
  /** A clause, with the fix if there is one: `nothing listens there`. */
  finding: string
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
    return shaken === null || shaken.code === 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'
      ? { mayAnswerLater: false, finding: `it speaks TLS: set TEMPORAL_TLS=true, ${WANTS_CERTIFICATE}` }
      : { mayAnswerLater: true, finding: 'it accepts connections and does not answer' }
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
  const answered = await firstEvent(socket, 'data')
  if (answered === null)
    return { mayAnswerLater: true, finding: 'it accepts connections and does not answer calls in time' }
  const expired = pair === undefined ? null : expiryOf(pair.crt)
  if (expired !== null) {
    return {
      mayAnswerLater: false,
      finding: `the client's certificate has expired on ${expired}: renew it (${CERTIFICATE_NAMES})`,
    }
  }
  return isShaken && answered.code === 'ECONNRESET'
    ? endedAfterHandshake(pair !== undefined)
    : failedHandshake(answered)
}

/** Null while it is valid. */
function expiryOf(certificate: Uint8Array): string | null {
  const { validToDate } = new X509Certificate(certificate)
  return validToDate.getTime() < Date.now() ? validToDate.toISOString() : null
}

/** Some servers close the connection instead of sending an alert (TLS 1.3). */
function endedAfterHandshake(hasCertificate: boolean): Reach {
  const finding = hasCertificate
    ? `it ended the connection after the handshake, as a server does that refuses the client's certificate: give one of an authority that it knows (${CERTIFICATE_NAMES})`
    : `it ended the connection after the handshake, as a server does that wants a client certificate: set ${CERTIFICATE_NAMES}`
  return { mayAnswerLater: false, finding }
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
  return { mayAnswerLater: false, finding: findings[code ?? ''] ?? message }
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
    ERR_TLS_CERT_ALTNAME_INVALID: `${message}: name what the certificate is for in TEMPORAL_TLS_SERVER_NAME`,
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
    ECONNRESET: 'it speaks no TLS, or ended the handshake: see its log',
    ETIMEDOUT: 'it accepts connections and does not answer the TLS handshake',
  }
  return {
    mayAnswerLater: code === 'ETIMEDOUT',
    finding: findings[code] ?? `the TLS handshake failed: ${alertOf(message)}`,
  }
}
