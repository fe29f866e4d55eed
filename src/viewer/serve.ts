/** The viewer's server: loopback only, read-only, with a random token in its address. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { LonghaulError, isLonghaulError } from '../contracts/errors.ts'
import { nearNames } from '../domain/near-names.ts'
import { errnoOf } from '../platform/files.ts'
import { ASSETS, type AssetName, type Assets, PAGE_HEADERS } from './assets.ts'
import { type Pages, createPages } from './pages.ts'
import type { EpisodeRow, LiveMessage } from './pages.types.ts'
import { listRuns } from './read-run.ts'
import type { RunSource } from './run-source.ts'
import { countSeen } from './shared/filter-rows.ts'
import { TOKEN_KEY } from './shared/token-key.ts'
import { episodeKeys } from '../contracts/keys.ts'
import type { EpisodeIndex } from './episode-index.ts'
import { readTurn } from './read-episode.ts'

const HOST = '127.0.0.1'
/** Most open live connections; each polls files. */
const MAX_LIVE = 32

export interface ServeViewerInput {
  store: ArtifactStore
  assets: Assets
  /** Answers histories and blockers. @default none: pages state that they show only records */
  source?: RunSource
  /** @default any free port */
  port?: number
  /** Uses any free port if that one is taken. @default false */
  elseAnyPort?: boolean
}

export interface RunningViewer {
  /** Contains the token and ends with a slash. */
  url: string
  close(): Promise<void>
}

/** @throws LonghaulError `Config.Invalid` if the port is taken */
export async function serveViewer({
  store,
  assets,
  source,
  port = 0,
  elseAnyPort = false,
}: ServeViewerInput): Promise<RunningViewer> {
  const token = randomBytes(24).toString('base64url')
  const pages = createPages(store, source ?? null)
  const stopping = new AbortController()
  let live = 0

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const place = placeOf(request, token, addressOf(server.address()))
    if (place.kind === 'refused') return send(response, place.status, 'text/plain; charset=utf-8', place.why)
    if (place.kind === 'opener') {
      const { type, body } = OPENER[place.name]
      return send(response, 200, type, body)
    }
    if (place.kind === 'asset') {
      return send(response, 200, ASSETS[place.name], assets[place.name])
    }
    if (place.kind === 'page') {
      const page = await pages.read(place.name)
      if (page === null) {
        const near = await nearRuns(store, place.name)
        return sendJson(response, 404, { error: sayAbsent(place.name), near })
      }
      return sendJson(response, 200, page)
    }
    if (live >= MAX_LIVE) return sendJson(response, 503, { error: `${MAX_LIVE} live pages are open already` })
    live += 1
    try {
      await sendLive(response, { store, pages, name: place.name, from: place.from, stopping: stopping.signal })
    } finally {
      live -= 1
    }
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else sendJson(response, 500, { error: messageOf(error) })
    })
  })
  await listen(server, port).catch(async (error: unknown) => {
    if (!elseAnyPort || !isLonghaulError(error)) throw error
    await listen(server, 0)
  })
  return {
    url: `http://${addressOf(server.address())}/${token}/`,
    async close() {
      stopping.abort()
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

type Place =
  | { kind: 'refused'; status: number; why: string }
  | { kind: 'opener'; name: keyof typeof OPENER }
  | { kind: 'asset'; name: AssetName }
  | { kind: 'page'; name: string }
  | { kind: 'live'; name: string; from: number }

/** What a request asks for. Compares the whole host: a foreign name that resolves to loopback is another host. */
function placeOf({ method, headers, url = '/' }: IncomingMessage, token: string, address: string): Place {
  const hosts = [address, address.replace(HOST, 'localhost')]
  if (headers.host === undefined || !hosts.includes(headers.host)) return refused(403, 'another host')
  if (headers.origin !== undefined && !hosts.some((host) => headers.origin === `http://${host}`)) {
    return refused(403, 'another origin')
  }
  if (method !== 'GET' && method !== 'HEAD') return refused(405, 'this server only answers GET')
  const [path = '', query = ''] = url.split('?', 2)
  if (Object.hasOwn(OPENER, path)) return { kind: 'opener', name: path as keyof typeof OPENER }
  const [, given = '', ...rest] = path.split('/')
  if (!isSameText(given, token)) return refused(404, 'not here: open the address that longhaul view printed')
  const name = rest.join('/')
  if (name === '') return path.endsWith('/') ? { kind: 'asset', name: 'index.html' } : refused(404, 'not here')
  if (Object.hasOwn(ASSETS, name)) return { kind: 'asset', name: name as AssetName }
  const asked = new URLSearchParams(query)
  const page = asked.get('name') ?? ''
  if (name === 'data') return { kind: 'page', name: page }
  const from = Number(asked.get('from') ?? '0')
  if (name === 'live' && Number.isSafeInteger(from) && from >= 0) return { kind: 'live', name: page, from }
  return refused(404, 'not here')
}

function refused(status: number, why: string): Place {
  return { kind: 'refused', status, why }
}

function isSameText(left: string, right: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(left), digest(right))
}

function send(response: ServerResponse, status: number, type: string, body: string | Uint8Array): void {
  response.writeHead(status, { ...PAGE_HEADERS, 'content-type': type, 'content-length': Buffer.byteLength(body) })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

function sendJson(response: ServerResponse, status: number, value: object): void {
  send(response, status, 'application/json; charset=utf-8', JSON.stringify(value))
}

/** Why there is no such page, in the reader's words: a link may be old, or its run removed. */
function sayAbsent(name: string): string {
  const [kind = '', run = '', ...rest] = name.split('/')
  const quoted = JSON.stringify([run, ...rest].join('/'))
  switch (kind) {
    case 'run':
    case 'episodes':
    case 'report':
    case 'blockers':
      return `No run is called ${quoted} in this store`
    case 'episode':
      return `No episode is called ${quoted} in this store`
    case 'tokens':
      return `No batch has the episode ${quoted}: the trainer has not read it`
    case 'compare':
      return `One of the two runs is not in this store: ${JSON.stringify(run)} and ${JSON.stringify(rest[1] ?? '')}`
    case 'trend':
      return `No evaluation in this store has joined the series ${quoted}`
    default:
      return `There is no page ${JSON.stringify(name)}`
  }
}

/** Names like that of a run that is not there, for pages that need only the run. */
async function nearRuns(store: ArtifactStore, name: string): Promise<string[]> {
  const [kind = '', run = ''] = name.split('/')
  return OF_A_RUN.includes(kind) ? nearNames(run, await listRuns(store), MOST_NEAR) : []
}

const OF_A_RUN: readonly string[] = ['run', 'episodes', 'report', 'blockers']
const MOST_NEAR = 5

interface SendLiveInput {
  store: ArtifactStore
  pages: Pages
  name: string
  from: number
  stopping: AbortSignal
}

async function sendLive(
  response: ServerResponse,
  { store, pages, name, from, stopping }: SendLiveInput,
): Promise<void> {
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  const signal = AbortSignal.any([gone.signal, stopping])
  const [kind = '', ...rest] = name.split('/')
  const index = await pages.index(rest[0] ?? '')
  const row = index === null || kind !== 'episode' ? null : await index.row(rest.join('/'))
  const isKnown = kind === 'episode' ? row !== null : kind === 'run' && rest.length === 1
  if (index === null || !isKnown) return sendJson(response, 404, { error: 'There is nothing live of that name' })
  response.writeHead(200, { ...PAGE_HEADERS, 'content-type': 'text/event-stream; charset=utf-8' })
  response.flushHeaders()
  const messages: AsyncGenerator<LiveMessage> =
    row === null ? followRun(index, { from, signal }) : followEpisode({ store, episode: row.episode, from, signal })
  for await (const message of messages) {
    if (signal.aborted) break
    response.write(`data: ${JSON.stringify(message)}\n\n`)
  }
  response.end()
}

function addressOf(address: string | AddressInfo | null): string {
  return address === null || typeof address === 'string' ? '' : `${HOST}:${address.port}`
}

async function listen(server: ReturnType<typeof createServer>, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(portError(error, port)))
    server.listen({ host: HOST, port }, resolve)
  })
}

function portError(error: Error, port: number): Error {
  if (errnoOf(error) !== 'EADDRINUSE') return error
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Port ${port} is taken; --port names another, and without it any free one is used`,
    cause: error,
  })
}

function messageOf(error: unknown): string {
  return isLonghaulError(error) ? `${error.code}: ${error.message}` : 'the viewer failed; see its terminal'
}

const OPENER_SCRIPT = `const token = localStorage.getItem(${JSON.stringify(TOKEN_KEY)})
if (token !== null && /^[\\w-]+$/.test(token)) location.replace('/' + token + '/' + location.hash)
`

const OPENER_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Longhaul</title>
<script src="/open.js"></script>
<h1>Longhaul</h1>
<p>Open the address that <code>longhaul view</code> printed, once in this browser. From then on this link works.</p>
</html>
`

/**
 * The page at the viewer's address without its token. Links that others can read, such as those in the Temporal UI, lead here. It contains
 * no data. In a browser that has opened the full address before, it completes the link with the token from local storage.
 */
const OPENER = {
  '/': { type: 'text/html; charset=utf-8', body: OPENER_PAGE },
  '/open.js': { type: 'text/javascript; charset=utf-8', body: OPENER_SCRIPT },
} as const

// News of a live run, polled from its records, since workers on any host may write them.

/** A turn should be on the page within two seconds. */
const TURN_POLL_MS = 500
const ROWS_POLL_MS = 2_000

export interface FollowEpisodeInput {
  store: ArtifactStore
  episode: string
  /** The first turn that the page lacks, or has without its observation. */
  from: number
  signal: AbortSignal
}

/** Yields each turn when it is sampled and again with its observation; ends after the episode's last record. */
async function* followEpisode({ store, episode, from, signal }: FollowEpisodeInput): AsyncGenerator<LiveMessage> {
  let next = from
  let isHalfSent = false
  while (!signal.aborted) {
    // Checked before the turns are read: all of them are written before the last record.
    const hasEnded = (await store.read(episodeKeys.result(episode))) !== null
    for (let turn = await readTurn(store, episode, next); turn !== null; turn = await readTurn(store, episode, next)) {
      if (turn.observation !== null || !isHalfSent) yield { kind: 'turn', turn }
      isHalfSent = turn.observation === null
      if (isHalfSent) break
      next += 1
    }
    if (hasEnded) {
      yield { kind: 'ended' }
      return
    }
    await pause(TURN_POLL_MS, signal)
  }
}

/**
 * Yields rows that are new or have changed since the last read; another first read would take as long. That read may be of another page,
 * or of a connection that broke: a page that has seen less gets all rows of it first.
 * @param from `countSeen` of the page
 */
async function* followRun(
  index: EpisodeIndex,
  { from, signal }: { from: number; signal: AbortSignal },
): AsyncGenerator<LiveMessage> {
  const told = new Map<string, string>()
  const keyOf = ({ state, verdict }: EpisodeRow): string => `${state} ${verdict ?? ''}`
  const read = index.lastRows() ?? (await index.rows())
  for (const row of read) told.set(row.episode, keyOf(row))
  if (countSeen(read) !== from) yield { kind: 'rows', rows: [...read] }
  while (!signal.aborted) {
    await pause(ROWS_POLL_MS, signal)
    const rows = (await index.rows()).filter((row) => told.get(row.episode) !== keyOf(row))
    for (const row of rows) told.set(row.episode, keyOf(row))
    if (rows.length > 0) yield { kind: 'rows', rows }
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined)
}
