/**
 * A writable hub of models: repositories, branches, commits and the storage of large files, with the public hub's answers to
 * `@huggingface/hub`. The storage is another server, so that a token or a signed address at the wrong place is detected.
 */
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { closeServer, listenOnLoopback } from '../loopback.ts'

export interface WritableHubOptions {
  /** Permission of each token; all others are refused. */
  tokens: Record<string, 'write' | 'read'>
  /** Larger files are sent in parts of this size. @default whole */
  partBytes?: number
}

interface StoredFile {
  bytes: Buffer
  isLarge: boolean
}

interface Commit {
  sha: string
  title: string
  files: Map<string, StoredFile>
}

interface Repository {
  isPrivate: boolean
  /** Oldest commit first. */
  branches: Map<string, Commit[]>
}

export interface WritableHub extends AsyncDisposable {
  url: string
  repositories: Map<string, Repository>
  /** Every request in order: `POST /api/repos/create`. */
  requests: { line: string; token: string | null; isStorage: boolean }[]
  /** Number of next uploads of one object, the first that is sent, that break off in the middle. */
  cuts: number
  /** Number of next commits that succeed but whose answer is lost. */
  lostAnswers: number
  /** Whether uploads are stored with one byte changed. */
  tampers: boolean
  /** Makes another commit before the next one. */
  raceWith: (() => void) | null
  commits(name: string, branch?: string): Commit[]
  put(name: string, files: Record<string, string>, branch?: string): void
}

export async function startWritableHub({ tokens, partBytes }: WritableHubOptions): Promise<WritableHub> {
  const repositories = new Map<string, Repository>()
  const stored = new Map<string, Buffer>()
  const parts = new Map<string, Buffer>()
  let cutObject: string | null = null

  const commit = (name: string, branch: string, title: string, change: (files: Commit['files']) => void): Commit => {
    const commits = repositories.get(name)?.branches.get(branch)
    if (commits === undefined) throw new Error(`no branch ${branch} of ${name}`)
    const files = new Map(commits.at(-1)?.files)
    change(files)
    const made = { sha: randomBytes(20).toString('hex'), title, files }
    commits.push(made)
    return made
  }
  const make = (name: string, isPrivate: boolean): void => {
    repositories.set(name, { isPrivate, branches: new Map([['main', []]]) })
    commit(name, 'main', 'initial commit', (files) => files.set('.gitattributes', small('*.safetensors filter=lfs\n')))
  }
  const storage = createServer((request, response) => void store(request, response))
  const server = createServer((request, response) => void answer(request, response))
  const storageUrl = `http://127.0.0.1:${await listenOnLoopback(storage)}`
  const hub: WritableHub = {
    url: `http://127.0.0.1:${await listenOnLoopback(server)}`,
    repositories,
    requests: [],
    cuts: 0,
    lostAnswers: 0,
    tampers: false,
    raceWith: null,
    commits: (name, branch = 'main') => repositories.get(name)?.branches.get(branch) ?? [],
    put(name, files, branch = 'main') {
      if (!repositories.has(name)) make(name, false)
      commit(name, branch, 'by hand', (all) => {
        for (const [path, text] of Object.entries(files)) all.set(path, small(text))
      })
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([closeServer(server), closeServer(storage)])
    },
  }

  async function store(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', storageUrl)
    hub.requests.push({
      line: `${request.method} ${pathname}`,
      token: request.headers.authorization ?? null,
      isStorage: true,
    })
    const [, oid = '', part] = pathname.split('/')
    cutObject ??= oid
    if (hub.cuts > 0 && oid === cutObject) {
      hub.cuts -= 1
      request.once('data', () => request.socket.destroy())
      return
    }
    const body = await bodyOf(request)
    if (body === null) return
    if (request.method === 'POST') {
      const { parts: listed } = JSON.parse(body.toString()) as { parts: { partNumber: number; etag: string }[] }
      const whole = listed.map(({ partNumber }) => parts.get(`${oid}/${partNumber}`) ?? Buffer.alloc(0))
      stored.set(oid, Buffer.concat(whole))
    } else if (part === undefined) {
      if (hub.tampers) body[body.length - 1] = (body.at(-1) ?? 0) ^ 1
      stored.set(oid, body)
    } else {
      parts.set(`${oid}/${Number(part)}`, body)
      response.setHeader('etag', `"${oid}-${part}"`)
    }
    response.end()
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', hub.url)
    const path = decodeURIComponent(pathname)
    const authorization = request.headers.authorization ?? null
    hub.requests.push({ line: `${request.method} ${path}`, token: authorization, isStorage: false })
    const body = await bodyOf(request)
    if (body === null) return
    const json = (value: unknown, status = 200): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    }
    const right = tokens[authorization?.replace('Bearer ', '') ?? '']
    if (authorization !== null && right === undefined) return json({ error: 'Invalid username or password.' }, 401)
    if (request.method !== 'GET' && !path.includes('/info/lfs/') && right !== 'write')
      return json({ error: 'Forbidden: you must use a token with write access' }, 403)
    if (path === '/api/repos/create') {
      const { organization, name, visibility } = JSON.parse(body.toString()) as Record<string, string>
      if (repositories.has(`${organization}/${name}`)) return json({ error: 'You already created this model' }, 409)
      make(`${organization}/${name}`, visibility === 'private')
      return json({ url: `${hub.url}/${organization}/${name}`, id: 'id' })
    }
    const [, api = '', name = '', verb = '', rest = ''] =
      /^\/(api\/models\/)?([\w.-]+?\/[\w.-]+?)(?:\.git)?(?:\/(revision|tree|resolve|branch|preupload|commit|info)\/(.*))?$/.exec(
        path,
      ) ?? []
    const repository = repositories.get(name)
    if (repository === undefined || (repository.isPrivate && right === undefined)) {
      response.setHeader('x-error-code', 'RepoNotFound')
      return json({ error: 'Repository not found' }, 404)
    }
    const [revision = '', ...file] = rest.split('/')
    const found =
      repository.branches.get(revision)?.at(-1) ??
      [...repository.branches.values()].flat().find(({ sha }) => sha === revision)
    if (verb === '' && api !== '') return json({ id: name, private: repository.isPrivate })
    if (verb === 'branch') {
      repository.branches.set(revision, [])
      commit(name, revision, 'initial commit', () => undefined)
      return json({})
    }
    if (verb === 'info') {
      const { objects } = JSON.parse(body.toString()) as { objects: { oid: string; size: number }[] }
      return json({ transfer: 'basic', objects: objects.map((object) => uploadOf(object)) })
    }
    if (found === undefined) {
      response.setHeader('x-error-code', 'RevisionNotFound')
      return json({ error: `Invalid rev id: ${revision}` }, 404)
    }
    switch (verb) {
      case 'revision':
        return json({ id: name, sha: found.sha, private: repository.isPrivate })
      case 'tree':
        return json([...found.files].map(([one, content]) => entry(one, content)))
      case 'resolve':
        return send(request, response, found.files.get(file.join('/')))
      case 'preupload': {
        const { files } = JSON.parse(body.toString()) as { files: { path: string; size: number }[] }
        const modes = files.map(({ path, size }) => ({
          path,
          uploadMode: path.endsWith('.safetensors') || size > 10_000_000 ? 'lfs' : 'regular',
        }))
        return json({ files: modes })
      }
      case 'commit':
        return commitLines(name, revision, body, response, json)
      default:
        return json({ error: 'no such address' }, 404)
    }
  }

  function uploadOf({ oid, size }: { oid: string; size: number }): object {
    if (stored.has(oid)) return { oid, size }
    const href = `${storageUrl}/${oid}`
    if (partBytes === undefined || size <= partBytes) return { oid, size, actions: { upload: { href } } }
    const numbers = Array.from({ length: Math.ceil(size / partBytes) }, (_, index) =>
      String(index + 1).padStart(5, '0'),
    )
    const header = Object.fromEntries(numbers.map((number) => [number, `${href}/${number}?signature=secret`]))
    return { oid, size, actions: { upload: { href, header: { chunk_size: String(partBytes), ...header } } } }
  }

  function commitLines(
    name: string,
    branch: string,
    body: Buffer,
    response: ServerResponse,
    json: (value: unknown, status?: number) => void,
  ): void {
    hub.raceWith?.()
    hub.raceWith = null
    const lines = body
      .toString()
      .split('\n')
      .map((line) => JSON.parse(line) as { key: string; value: Record<string, string> })
    const head = hub.commits(name, branch).at(-1)?.sha
    const header = lines.find(({ key }) => key === 'header')?.value ?? {}
    if (header['parentCommit'] !== head) return json({ error: 'A commit has happened since' }, 412)
    const lost = lines.find(({ key, value }) => key === 'lfsFile' && !stored.has(value['oid'] ?? ''))
    if (lost !== undefined) return json({ error: `LFS pointer ${lost.value['path']} points to no file` }, 400)
    const made = commit(name, branch, header['summary'] ?? '', (files) => {
      for (const { key, value } of lines) {
        const path = value['path'] ?? ''
        if (key === 'file') files.set(path, small(Buffer.from(value['content'] ?? '', 'base64')))
        if (key === 'lfsFile')
          files.set(path, { bytes: stored.get(value['oid'] ?? '') ?? Buffer.alloc(0), isLarge: true })
        if (key === 'deletedFile') files.delete(path)
      }
    })
    if (hub.lostAnswers > 0) {
      hub.lostAnswers -= 1
      response.destroy()
    } else json({ success: true, commitOid: made.sha, commitUrl: `${hub.url}/${name}/commit/${made.sha}` })
  }

  return hub
}

function small(content: string | Buffer): StoredFile {
  return { bytes: Buffer.from(content), isLarge: false }
}

function entry(path: string, { bytes, isLarge }: StoredFile): object {
  const size = bytes.length
  const oid = createHash('sha1').update(`blob ${size}\0`).update(bytes).digest('hex')
  if (!isLarge) return { type: 'file', path, size, oid }
  return { type: 'file', path, size, oid, lfs: { oid: sha256(bytes), size, pointerSize: 130 } }
}

function send(request: IncomingMessage, response: ServerResponse, file: StoredFile | undefined): void {
  if (file === undefined) {
    response.writeHead(404, { 'x-error-code': 'EntryNotFound' }).end()
    return
  }
  const { bytes } = file
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '')
  const [, from = '0', to = ''] = range ?? []
  const end = Math.min(to === '' ? bytes.length : Number(to) + 1, bytes.length)
  response.writeHead(range === null ? 200 : 206, {
    etag: `"${sha256(bytes)}"`,
    'content-length': end - Number(from),
    ...(range === null ? {} : { 'content-range': `bytes ${from}-${end - 1}/${bytes.length}` }),
  })
  response.end(bytes.subarray(Number(from), end))
}

/** Null for a body that breaks off. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    return Buffer.concat(chunks)
  } catch {
    return null
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
