/** The viewer's real server and its static files, over real records that hold everything an agent could write against a reader. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createContext, runInContext } from 'node:vm'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { episodeKeys, runKeys } from '../../src/contracts/keys.ts'
import { loadAssets, type Assets } from '../../src/viewer/assets.ts'
import { createPages } from '../../src/viewer/pages.ts'
import type {
  BlockerLine,
  BlockersPage,
  EpisodePage,
  EpisodeRow,
  EpisodesPage,
  LiveMessage,
  Page,
  TurnsPage,
} from '../../src/viewer/pages.types.ts'
import type { Answer as SourceAnswer, BlockersAnswer, RunSource } from '../../src/viewer/run-source.ts'
import { serveViewer, type RunningViewer } from '../../src/viewer/serve.ts'
import { countSeen } from '../../src/viewer/shared/filter-rows.ts'
import { writeStatic } from '../../src/viewer/write-static.ts'
import { makeRecord } from '../support/episode-records.ts'
import { HOSTILE } from '../support/hostile-texts.ts'
import { storeAction, storeEpisode, storeObservation, storeViewedRun } from '../support/viewed-run.ts'

const BLOCKER: BlockerLine = {
  on: { kind: 'policy-server', name: 'http://127.0.0.1:1' },
  doing: 'sampling',
  since: '2026-11-23T10:00:00.000Z',
  for: { workflowId: 'train/r/dapo-1/0001/task/o__n-1/ep/00' },
  count: 3,
  error: { code: 'Model.Unavailable', message: HOSTILE },
  toDo: 'start it',
}

let root: string
let store: ArtifactStore
let assets: Assets
let viewer: RunningViewer
let hostile: string

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'longhaul-viewer-'))
  store = createDirectoryStore({ root: join(root, 'artifacts') })
  await storeViewedRun(store, 'r')
  hostile = await storeEpisode(store, {
    run: 'r',
    taskId: 'o__n-1',
    turns: 2,
    reply: HOSTILE,
    command: HOSTILE,
    output: HOSTILE,
    statement: HOSTILE,
    patch: HOSTILE,
  })
  assets = await loadAssets()
  viewer = await serveViewer({ store, assets })
})

after(async () => {
  await viewer?.close()
  await rm(root, { recursive: true, force: true })
})

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: string
}

/** As any program on the machine could ask, with any header. */
function ask(
  path: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
) {
  const { port } = new URL(viewer.url)
  return new Promise<Answer>((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (part: string) => (body += part))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }))
    })
    asked.on('error', reject)
    asked.end()
  })
}

const inside = (path: string): string => new URL(path, viewer.url).pathname + new URL(path, viewer.url).search

test('the page allows no inline script, frame or other origin', async () => {
  const { status, headers, body } = await ask(inside(''))
  assert.equal(status, 200)
  const policy = String(headers['content-security-policy'])
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]) {
    assert.ok(policy.includes(part), part)
  }
  assert.doesNotMatch(policy, /unsafe|\*|data:|http/)
  assert.equal(headers['x-content-type-options'], 'nosniff')
  assert.equal(headers['referrer-policy'], 'no-referrer')
  assert.equal(headers['access-control-allow-origin'], undefined)
  assert.doesNotMatch(body, /<script(?![^>]*\ssrc=)|\son\w+=|javascript:/i)
  for (const name of ['start.js', 'viewer.js', 'viewer.css']) assert.equal((await ask(inside(name))).status, 200, name)
})

test('serves no content without the token', async () => {
  const { pathname } = new URL(viewer.url)
  const token = pathname.slice(1, -1)
  assert.ok(token.length >= 32)
  const wrong = Buffer.from(Buffer.from(token).toReversed()).toString()
  for (const path of [
    '/start.js',
    '/viewer.js',
    '/data?name=runs',
    `/${wrong}/`,
    `/${token}x/`,
    `/${token}`,
    `/${token}/../etc/passwd`,
    `/x/../${token}/`,
  ]) {
    const { status, body } = await ask(path)
    assert.equal(status, 404, path)
    assert.ok(!body.includes(token), path)
  }
})

test('the address without its token serves a page without content and one script that is not the viewer’s', async () => {
  const [page, script] = await Promise.all([ask('/'), ask('/open.js')])
  assert.deepEqual([page.status, script.status], [200, 200])
  for (const { body, headers } of [page, script]) {
    assert.ok(!body.includes(new URL(viewer.url).pathname.slice(1, -1)))
    assert.match(String(headers['content-security-policy']), /script-src 'self'/)
  }
  assert.match(page.body, /address that <code>longhaul view<\/code> printed/)
})

test('refuses a page of another origin, a name rebound to loopback, and a writing method', async () => {
  const path = inside('data?name=runs')
  const { host, port } = new URL(viewer.url)
  assert.equal((await ask(path, { headers: { host } })).status, 200)
  assert.equal(
    (await ask(path, { headers: { host: `localhost:${port}`, origin: `http://localhost:${port}` } })).status,
    200,
  )
  for (const headers of [
    { host: 'evil.example' },
    { host: `evil.example:${port}` },
    { host: '127.0.0.1' },
    { host: `127.0.0.1.evil.example:${port}` },
    { host, origin: 'http://evil.example' },
    { host, origin: 'null' },
    { host, origin: `https://${host}` },
  ]) {
    assert.equal((await ask(path, { headers })).status, 403, JSON.stringify(headers))
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
    assert.equal((await ask(path, { method })).status, 405, method)
})

test('listens on loopback only', () => {
  assert.equal(new URL(viewer.url).hostname, '127.0.0.1')
})

test('hostile texts arrive unchanged, in JSON that no browser treats as a page', async () => {
  const { status, headers, body } = await ask(inside(`data?name=${encodeURIComponent(`episode/${hostile}`)}`))
  assert.equal(status, 200)
  assert.match(String(headers['content-type']), /^application\/json/)
  const page = JSON.parse(body) as EpisodePage
  assert.equal(page.turns[0]?.command, HOSTILE.slice(0, 120))
  assert.equal(page.statement?.text, HOSTILE)
  assert.equal(page.patch?.text, HOSTILE)
  const part = await ask(inside(`data?name=${encodeURIComponent(`turns/0/${hostile}`)}`))
  assert.match(String(part.headers['content-type']), /^application\/json/)
  const { turns } = JSON.parse(part.body) as TurnsPage
  assert.deepEqual(
    turns.map(({ reply, command, observation }) => [reply.text, command?.text, observation?.text.text]),
    [0, 1].map(() => [HOSTILE, HOSTILE, HOSTILE]),
  )
})

test('an unknown page is a 404 with the name as text', async () => {
  for (const name of ['run/<script>', 'episode/../../x', '']) {
    const { status, headers } = await ask(inside(`data?name=${encodeURIComponent(name)}`))
    assert.deepEqual([status, headers['content-type']], [404, 'application/json; charset=utf-8'], name)
  }
})

test('answers with the blockers of a run, nothing for an ended run, or why there is no answer', async () => {
  const answers: Record<string, SourceAnswer<BlockersAnswer | null>> = {
    r: { ok: true, value: { blockers: [BLOCKER], notLookedAt: 7 } },
    ended: { ok: true, value: null },
    silent: { ok: false, why: HOSTILE },
  }
  for (const run of ['ended', 'silent']) await storeViewedRun(store, run)
  const asked: string[] = []
  const source: RunSource = {
    runs: async () => ({ ok: false, why: 'not asked' }),
    history: async () => ({ ok: false, why: 'not asked' }),
    blockers: async (run) => (asked.push(run), answers[run] ?? { ok: false, why: 'unknown' }),
  }
  const pages = createPages(store, source)
  assert.deepEqual(await pages.read('blockers/r'), {
    kind: 'blockers',
    run: 'r',
    why: null,
    open: { blockers: [BLOCKER], notLookedAt: 7 },
    isPlayed: true,
  })
  assert.deepEqual(await pages.read('blockers/ended'), {
    kind: 'blockers',
    run: 'ended',
    why: null,
    open: null,
    isPlayed: false,
  })
  const silent = { kind: 'blockers', run: 'silent', why: HOSTILE, open: null }
  assert.deepEqual(await pages.read('blockers/silent'), { ...silent, isPlayed: true })
  // The records say that it has ended: a run that writes its report is at its end.
  await store.putRecord(runKeys.durations('silent', 1), { schema: 'longhaul.durations/1', durations: {} })
  assert.deepEqual(await pages.read('blockers/silent'), { ...silent, isPlayed: false })
  // A name that is no run is not passed on.
  assert.equal(await pages.read('blockers/no-such-run'), null)
  assert.deepEqual(asked, ['r', 'ended', 'silent', 'silent'])
  const { body } = await ask(inside('data?name=blockers/r'))
  assert.match((JSON.parse(body) as BlockersPage).why ?? '', /asks no server/)
})

/** The messages of a live connection as they come. */
async function* follow(name: string, from: number): AsyncGenerator<LiveMessage> {
  const response = await fetch(new URL(`live?name=${encodeURIComponent(name)}&from=${from}`, viewer.url))
  assert.equal(response.status, 200)
  let text = ''
  for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
    text += part
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      yield JSON.parse(text.slice('data: '.length, end)) as LiveMessage
      text = text.slice(end + 2)
    }
  }
}

test('an open page of an episode receives each turn with its answer, and then the end', async () => {
  const fields = { run: 'r', stage: 'dapo-1', taskId: 'o__n-9', turns: 1 }
  const episode = await storeEpisode(store, { ...fields, hasEnded: false })
  const record = makeRecord(fields)
  const messages = follow(`episode/${episode}`, 0)
  const next = async (): Promise<LiveMessage> => {
    const { value, done } = await messages.next()
    assert.ok(done !== true, 'the connection ended')
    return value
  }
  const seen = async (): Promise<[number, boolean]> => {
    const message = await next()
    assert.equal(message.kind, 'turn')
    return message.kind === 'turn' ? [message.turn.turn, message.turn.observation !== null] : [-1, false]
  }
  assert.deepEqual(await seen(), [0, false])
  await storeObservation(store, episode, 0, 'out')
  assert.deepEqual(await seen(), [0, true])
  await storeAction(store, record, 1, { text: 'more', command: 'ls' })
  assert.deepEqual(await seen(), [1, false])
  await storeObservation(store, episode, 1, 'out')
  await store.putRecord(episodeKeys.result(episode), { ...record, turns: 2 })
  assert.deepEqual(await seen(), [1, true])
  assert.deepEqual(await next(), { kind: 'ended' })
  assert.equal((await messages.next()).done, true)
})

test('an open page of a run receives a row that ends', async () => {
  const fields = { run: 'r', stage: 'dapo-1', taskId: 'o__n-8', turns: 1 }
  const episode = await storeEpisode(store, { ...fields, hasEnded: false })
  const { rows } = (await createPages(store).read('episodes/r')) as EpisodesPage
  const messages = follow('run/r', countSeen(rows))
  // The headers are sent before the first look: the change must come after it.
  const first = messages.next()
  await store.putRecord(episodeKeys.result(episode), makeRecord(fields))
  await storeEpisode(store, { ...fields, index: 1 })
  const found: string[] = []
  for (let result = await first; result.done !== true; result = await messages.next()) {
    if (result.value.kind === 'rows') found.push(...result.value.rows.map((row) => row.episode))
    if (found.length > 0) break
  }
  await messages.return(undefined)
  assert.ok(found.includes(episode) || found.includes(episode.replace(/00$/, '01')), found.join(' '))
})

test('an open page of a run receives what ended before its connection, although another page has read that already', {
  timeout: 60_000,
}, async () => {
  const fields = { run: 'r', stage: 'dapo-1', taskId: 'o__n-7', turns: 1 }
  const episode = await storeEpisode(store, { ...fields, hasEnded: false })
  const read = async () => JSON.parse((await ask(inside('data?name=episodes/r'))).body) as EpisodesPage
  const { rows } = await read()
  await store.putRecord(episodeKeys.result(episode), makeRecord({ ...fields, verdict: 'resolved' }))
  await read()
  const messages = follow('run/r', countSeen(rows))
  const { value } = await messages.next()
  await messages.return(undefined)
  const sent = value?.kind === 'rows' ? value.rows.find((row: EpisodeRow) => row.episode === episode) : undefined
  assert.equal(sent?.verdict, 'resolved')
})

/** What a browser would collect from the scripts of a static report. */
async function pagesIn(directory: string): Promise<Map<string, Page>> {
  const found = new Map<string, Page>()
  const context = createContext({ longhaulPage: (name: string, page: Page) => found.set(name, page) })
  const files = await readdir(join(directory, 'data'), { recursive: true })
  for (const file of files.filter((name) => name.endsWith('.js'))) {
    runInContext(await readFile(join(directory, 'data', file), 'utf8'), context)
  }
  return found
}

test('static files hold the same pages as the server, without markup of a trajectory', async () => {
  const directory = join(root, 'static')
  const files = await writeStatic({ store, assets, run: 'r', directory })
  const found = await pagesIn(directory)
  assert.ok(files >= found.size)
  for (const name of ['run/r', `episode/${hostile}`, `turns/0/${hostile}`]) {
    const { body } = await ask(inside(`data?name=${encodeURIComponent(name)}`))
    assert.deepEqual(JSON.parse(JSON.stringify(found.get(name))), JSON.parse(body), name)
  }
  const page = await readFile(join(directory, 'index.html'), 'utf8')
  assert.match(page, /<meta http-equiv="Content-Security-Policy" content="default-src 'none'/)
  assert.doesNotMatch(page, /<script(?![^>]*\ssrc=)|unsafe/)
  await assert.rejects(writeStatic({ store, assets, run: 'r', directory }), { code: 'Config.Invalid' })
})
