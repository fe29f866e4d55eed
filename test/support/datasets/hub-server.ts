/** A hub of files: the public hub's tree listing and range reads, for any client of its layout. */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { closeServer, listenOnLoopback } from '../loopback.ts'

export interface HubRequest {
  path: string
  range: string | null
  /** The header `authorization`. */
  token: string | null
}

export interface HubServer extends AsyncDisposable {
  url: string
  requests: HubRequest[]
}

export interface HubContent {
  /** `owner/name` */
  dataset: string
  /** @default dataset */
  kind?: 'dataset' | 'model'
  /** Required for every read. @default none */
  token?: string
  /** Status of a refused read. @default 401 */
  refusal?: 401 | 403
  /** Files whose content differs from the listing. */
  tampered?: Record<string, Uint8Array>
  /** Storage of large files: requests are redirected to this address and the file's name. */
  storage?: string
  revision: string
  files: Record<string, Uint8Array>
  /** Number of file requests that are answered with 503 before the first good one. */
  failures?: number
  /** Number of long answers that break off in the middle before the first complete one. */
  breaks?: number
}

export async function startHubServer({
  dataset,
  revision,
  kind = 'dataset',
  token,
  refusal = 401,
  tampered = {},
  storage,
  files,
  failures = 0,
  breaks = 0,
}: HubContent): Promise<HubServer> {
  const requests: HubRequest[] = []
  let failuresLeft = failures
  let breaksLeft = breaks
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://hub').pathname)
    const range = request.headers.range ?? null
    const authorization = request.headers.authorization ?? null
    requests.push({ path, range, token: authorization })
    const name = path.replace(`/${kind === 'model' ? '' : 'datasets/'}${dataset}/resolve/${revision}/`, '')
    const content = tampered[name] ?? files[name]
    if (token !== undefined && authorization !== `Bearer ${token}`) {
      response.writeHead(refusal).end()
    } else if ([`main`, revision].some((known) => path === `/api/${kind}s/${dataset}/revision/${known}`)) {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ sha: revision }))
    } else if (storage !== undefined && content !== undefined && name.endsWith('.safetensors')) {
      response.writeHead(302, { location: `${storage}/${name}` }).end()
    } else if (path === `/api/${kind}s/${dataset}/tree/${revision}`) {
      const entries = Object.entries(files).map(([name, bytes]) => entry(name, bytes))
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(entries))
    } else if (content === undefined) {
      response.writeHead(404, { 'x-error-code': 'RevisionNotFound' }).end()
    } else if (failuresLeft > 0) {
      failuresLeft -= 1
      response.writeHead(503).end()
    } else {
      const [, from = '0', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? []
      const end = Math.min(to === '' ? content.length : Number(to) + 1, content.length)
      response.writeHead(range === null ? 200 : 206, {
        etag: `"${sha256(content)}"`,
        'content-length': end - Number(from),
        'content-range': `bytes ${from}-${end - 1}/${content.length}`,
      })
      const part = content.subarray(Number(from), end)
      if (part.length > 1000 && breaksLeft > 0) {
        breaksLeft -= 1
        response.write(part.subarray(0, 500), () => response.destroy())
      } else response.end(part)
    }
  })
  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    [Symbol.asyncDispose]: () => closeServer(server),
  }
}

function entry(path: string, bytes: Uint8Array): object {
  const oid = sha256(bytes)
  return {
    type: 'file',
    path,
    size: bytes.length,
    oid: oid.slice(0, 40),
    lfs: { oid, size: bytes.length, pointerSize: 130 },
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
