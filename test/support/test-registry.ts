/** A registry of one-file images on loopback, which engines may use without TLS. It counts its requests. */
import { createHash } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { packFiles } from '../../src/adapters/docker/engine/tar.ts'
import { closeServer, listenOnLoopback } from './loopback.ts'

export interface TestRegistry {
  /** Makes `name:tag` point to a new image and returns its full reference and manifest digest. */
  publish(input: {
    name: string
    tag: string
    text: string
    architecture?: string
  }): Promise<{ image: string; digest: string }>
  /** Prepends `127.0.0.1:port/` to a name. */
  reference(name: string): string
  /** Answers every request with this status from now on; null: normal service. */
  fail(status: number | null, body?: string, headers?: Record<string, string>): void
  /** Answers requests for layers in this way from now on; null: normal service. */
  spoil(layers: { status: number; body: Buffer } | null): void
  /** Number of layers sent. */
  layersSent(): number
  close(): Promise<void>
}

const TYPES = {
  manifest: 'application/vnd.docker.distribution.manifest.v2+json',
  config: 'application/vnd.docker.container.image.v1+json',
  layer: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
} as const

export async function startTestRegistry(): Promise<TestRegistry> {
  const blobs = new Map<string, Buffer>()
  const manifests = new Map<string, Buffer>()
  const layers = new Set<string>()
  let failing: { status: number; body: string; headers: Record<string, string> } | null = null
  let spoilt: { status: number; body: Buffer } | null = null
  let layersSent = 0
  const store = (bytes: Buffer): { digest: string; size: number } => {
    const digest = digestOf(bytes)
    blobs.set(digest, bytes)
    return { digest, size: bytes.length }
  }
  const server = createServer((request, response) => {
    if (failing !== null) {
      for (const [name, value] of Object.entries(failing.headers)) response.setHeader(name, value)
      return send(response, failing.status, Buffer.from(failing.body))
    }
    const [, name = '', kind = '', reference = ''] =
      /^\/v2\/(.+)\/(manifests|blobs)\/(.+)$/.exec(request.url ?? '') ?? []
    if (request.url === '/v2/') return send(response, 200, Buffer.from('{}'))
    const found = kind === 'manifests' ? manifests.get(`${name}:${reference}`) : blobs.get(reference)
    if (found === undefined)
      return send(response, 404, Buffer.from('{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'))
    if (spoilt !== null && layers.has(reference)) return send(response, spoilt.status, spoilt.body)
    if (request.method === 'GET' && layers.has(reference)) layersSent += 1
    response.setHeader('docker-content-digest', digestOf(found))
    response.setHeader('content-type', kind === 'manifests' ? TYPES.manifest : 'application/octet-stream')
    send(response, 200, found, request.method === 'HEAD')
  })
  const port = await listenOnLoopback(server)
  const reference = (name: string): string => `127.0.0.1:${port}/${name}`
  return {
    reference,
    fail: (status, body = '{"errors":[{"code":"TOOMANYREQUESTS"}]}', headers = {}) => {
      failing = status === null ? null : { status, body, headers }
    },
    spoil: (how) => {
      spoilt = how
    },
    layersSent: () => layersSent,
    async publish({ name, tag, text, architecture = 'amd64' }) {
      const tar = await packFiles([{ name: 'file', body: Buffer.from(text), mode: 0o644 }])
      const layer = store(gzipSync(tar))
      layers.add(layer.digest)
      const rootfs = { type: 'layers', diff_ids: [digestOf(tar)] }
      const history = [{ created_by: 'test' }]
      const config = store(Buffer.from(JSON.stringify({ architecture, os: 'linux', config: {}, rootfs, history })))
      const manifest = Buffer.from(
        JSON.stringify({
          schemaVersion: 2,
          mediaType: TYPES.manifest,
          config: { mediaType: TYPES.config, ...config },
          layers: [{ mediaType: TYPES.layer, ...layer }],
        }),
      )
      const digest = digestOf(manifest)
      for (const key of [tag, digest]) manifests.set(`${name}:${key}`, manifest)
      return { image: `${reference(name)}:${tag}`, digest }
    },
    close: () => closeServer(server),
  }
}

function send(response: ServerResponse, status: number, body: Buffer, isHead = false): void {
  response.writeHead(status, { 'content-length': body.length })
  response.end(isHead ? undefined : body)
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}
