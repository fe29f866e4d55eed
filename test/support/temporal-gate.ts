/**
 * A TLS gateway in front of a real Temporal server: it terminates TLS, optionally requires client certificates, checks the API key of
 * each call and forwards it. It acts like the edge of a secured server or of Temporal Cloud, with the server's own answers behind it.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, constants, createSecureServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

export interface Authority {
  caPath: string
  /** Issues a server's certificate for `temporal.test`, or a client's; negative `days`: expired. */
  issue(name: string, days?: number): { certPath: string; keyPath: string }
  /** The same, valid only from 2090 on. */
  issueEarly(name: string): { certPath: string; keyPath: string }
}

/** A private certificate authority in `directory`. */
export function createAuthority(directory: string): Authority {
  mkdirSync(directory, { recursive: true })
  const at = (name: string): string => join(directory, name)
  const openssl = (...args: string[]): void => {
    execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'], timeout: 30_000 })
  }
  const newKey = (path: string): string[] => [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-keyout',
    path,
  ]
  openssl(
    'req',
    '-x509',
    ...newKey(at('ca.key')),
    '-out',
    at('ca.pem'),
    '-days',
    '30',
    '-subj',
    '/CN=longhaul test authority',
  )
  const request = (name: string): Record<'key' | 'csr' | 'pem', string> => {
    const paths = { key: at(`${name}.key`), csr: at(`${name}.csr`), pem: at(`${name}.pem`) }
    openssl('req', '-new', ...newKey(paths.key), '-out', paths.csr, '-subj', `/CN=${name}`)
    return paths
  }
  return {
    caPath: at('ca.pem'),
    issueEarly(name) {
      const { key, csr, pem } = request(name)
      const settings = ['[ca]', 'default_ca=it', '[it]', `database=${at('index.txt')}`, `new_certs_dir=${directory}`]
      settings.push('rand_serial=yes', 'default_md=sha256', 'policy=any', '[any]', 'commonName=supplied', '')
      writeFileSync(at('ca.cnf'), settings.join('\n'))
      writeFileSync(at('index.txt'), '')
      const dates = ['-startdate', '20900101000000Z', '-enddate', '20910101000000Z']
      const authority = ['-config', at('ca.cnf'), '-cert', at('ca.pem'), '-keyfile', at('ca.key')]
      openssl('ca', '-batch', '-notext', ...authority, ...dates, '-in', csr, '-out', pem)
      return { certPath: pem, keyPath: key }
    },
    issue(name, days = 30) {
      const { key, csr, pem: cert } = request(name)
      const names = at(`${name}.ext`)
      writeFileSync(names, 'subjectAltName=DNS:temporal.test\n')
      const authority = ['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-extfile', names]
      openssl('x509', '-req', '-in', csr, '-out', cert, '-days', String(days), ...authority)
      return { certPath: cert, keyPath: key }
    },
  }
}

export interface TemporalGate {
  /** `127.0.0.1:port` */
  address: string
  /** Calls that were admitted, and calls that were refused because of their key. */
  counts: { passed: number; refused: number }
  /** Every value of the header `authorization` that arrived. */
  authorizations: Set<string>
  /** Requires another key from now on. */
  accept(apiKey: string): void
  close(): Promise<void>
}

export interface TemporalGateOptions {
  /** `host:port` of the server behind the gateway, without TLS. */
  target: string
  certPath: string
  keyPath: string
  /** Client certificates must be of this authority; if absent, none are required. */
  clientCaPath?: string
  apiKey?: string
  /** Port of a closed gateway that opens again. @default any */
  port?: number
}

const UNAUTHENTICATED = '16'

export async function openTemporalGate(options: TemporalGateOptions): Promise<TemporalGate> {
  const { target, certPath, keyPath, clientCaPath, port = 0 } = options
  let { apiKey } = options
  const behind = connect(`http://${target}`)
  const counts = { passed: 0, refused: 0 }
  const authorizations = new Set<string>()
  const server = createSecureServer({
    cert: readFileSync(certPath),
    key: readFileSync(keyPath),
    ...(clientCaPath === undefined
      ? {}
      : { requestCert: true, rejectUnauthorized: true, ca: readFileSync(clientCaPath) }),
  })
  const sessions = new Set<{ destroy(): void }>()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => undefined)
    session.on('close', () => sessions.delete(session))
  })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined)
    const key = headers.authorization
    if (key !== undefined) authorizations.add(key)
    if (apiKey !== undefined && key !== `Bearer ${apiKey}`) {
      counts.refused++
      stream.respond(
        {
          ':status': 200,
          'content-type': 'application/grpc',
          'grpc-status': UNAUTHENTICATED,
          'grpc-message': 'Request unauthorized.',
        },
        { endStream: true },
      )
      return
    }
    counts.passed++
    const { host: _host, ':authority': _authority, ...kept } = headers
    passOn(stream, behind.request({ ...kept, ':authority': target }))
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    authorizations,
    accept: (key) => {
      apiKey = key
    },
    async close() {
      for (const session of sessions) session.destroy()
      behind.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function passOn(stream: ServerHttp2Stream, request: ReturnType<ReturnType<typeof connect>['request']>): void {
  stream.pipe(request)
  stream.on('aborted', () => request.close(constants.NGHTTP2_CANCEL))
  request.on('error', () => stream.close(constants.NGHTTP2_INTERNAL_ERROR))
  let trailers: Record<string, string | string[] | undefined> = {}
  request.on('trailers', (last) => {
    trailers = last
  })
  request.on('response', (headers, flags) => {
    if (stream.destroyed) return
    if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) {
      stream.respond(headers, { endStream: true })
      return
    }
    stream.respond(headers, { waitForTrailers: true })
    stream.on('wantTrailers', () => stream.sendTrailers(trailers))
    request.pipe(stream)
  })
}
