/**
 * The artifact store in a bucket compared with the one in a directory: the cost of a turn's records, and listings of many keys.
 *
 *   npm run bench:object-store -- [--turns 300] [--keys 1000000] [--served-keys 20000] [--latency-ms 25] [--out FILE]
 *
 * The server is versitygw over a local directory, so both stores use the same disk. A proxy adds `--latency-ms` to each request, like
 * a bucket in the same region. `--served-keys` exist as files behind the server and are listed by both stores. The listing of
 * `--keys` measures only the client: a server of this bench generates the pages in Amazon's format.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createDirectoryStore } from '../src/adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../src/contracts/artifacts.types.ts'
import { episodeKeys } from '../src/contracts/keys.ts'
import { findS3Server, openBucket, startS3Server } from '../test/support/artifacts/s3-server.ts'
import { listenOnLoopback } from '../test/support/loopback.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { versions } from './support/versions.ts'

endWith2OnError()
const { values } = benchArguments({
  options: {
    turns: { type: 'string', default: '300' },
    keys: { type: 'string', default: '1000000' },
    'served-keys': { type: 'string', default: '20000' },
    'latency-ms': { type: 'string', default: '25' },
    out: { type: 'string' },
  },
})
const [turns, keys, latencyMs] = [Number(values.turns), Number(values.keys), Number(values['latency-ms'])]
const servedKeys = Number(values['served-keys'])
/** Turns of an episode, so that folders are as large as in a run. */
const EPISODE_TURNS = 40
/** The size of a turn as in the paper: 250 sampled tokens with log-probabilities, two kilobytes of output. */
const ACTION = {
  ids: Array.from({ length: 250 }, (_, at) => 10_000 + at),
  logprobs: Array.from({ length: 250 }, (_, at) => -at / 997),
  text: 'x'.repeat(1_000),
}
const OBSERVATION = { text: 'y'.repeat(2_000), exitCode: 0, tree: 'f'.repeat(64) }

const found = await findS3Server()
if ('reason' in found) throw new Error(found.reason)
const server = await startS3Server(found.program)
const root = await mkdtemp(join(tmpdir(), 'longhaul-bench-'))
const slow = await startDelay(server.url, latencyMs)
let violations = 0
try {
  const stores: Record<string, ArtifactStore> = {
    directory: createDirectoryStore({ root: join(root, 'store') }),
    s3: openBucket(server, { prefix: 'near' }).store,
    [`s3, ${latencyMs} ms away`]: openBucket(server, { prefix: 'far', url: slow.url }).store,
  }
  const rows = []
  for (const [name, store] of Object.entries(stores)) {
    await recordTurns(store, 'warm-up', 10)
    rows.push({ store: name, ...(await recordTurns(store, 'measured', turns)) })
  }
  const listing = await measureListing()
  const { node, cores, kernel, provenance } = versions()
  const result = {
    bench: 'object-store',
    date: new Date().toISOString(),
    node,
    cores,
    kernel,
    provenance,
    turns: rows,
    listing,
  }
  const text = JSON.stringify(result, null, 2)
  console.log(text)
  if (values.out !== undefined) await writeFile(values.out, `${text}\n`)
  process.exitCode = conclude({ compared: { stores: rows.length, keys: listing.keys }, violations })
} finally {
  await slow.close()
  await server.close()
  await rm(root, { recursive: true, force: true })
}

/** Writes one record after another, as an episode does: the action before it runs, the observation before the next sample. */
async function recordTurns(store: ArtifactStore, run: string, count: number) {
  const times: number[] = []
  const cpu = process.cpuUsage()
  for (let turn = 0; turn < count; turn++) {
    const episode = `${run}/stage/0000/task/${String(Math.floor(turn / EPISODE_TURNS)).padStart(2, '0')}`
    const start = performance.now()
    await store.putRecord(episodeKeys.action(episode, turn % EPISODE_TURNS), { ...ACTION, turn })
    await store.putRecord(episodeKeys.observation(episode, turn % EPISODE_TURNS), { ...OBSERVATION, turn })
    times.push(performance.now() - start)
  }
  const { user, system } = process.cpuUsage(cpu)
  times.sort((a, b) => a - b)
  const at = (share: number): number => round(times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0)
  return { turns: count, p50Ms: at(0.5), p95Ms: at(0.95), workerCpuMs: round((user + system) / 1000 / count) }
}

/** 100 keys an episode and ten episodes a task, as in a run of 10,000 episodes. */
function keyOf(index: number): string {
  const episode = Math.floor(index / 100)
  const [task, attempt] = [Math.floor(episode / 10), episode % 10]
  const id = `run/stage/0000/task-${String(task).padStart(6, '0')}/${String(attempt).padStart(2, '0')}`
  return episodeKeys.action(id, index % 100)
}

async function measureListing() {
  for (let first = 0; first < servedKeys; first += 100) {
    const size = Math.min(100, servedKeys - first)
    const files = Array.from({ length: size }, (_, at) => server.fileOf(`many/${keyOf(first + at)}`))
    await mkdir(dirname(files[0] ?? ''), { recursive: true })
    await Promise.all(files.map((file) => writeFile(file, '{}')))
  }
  const pages = await startPages(keys)
  const stores: [string, ArtifactStore, number][] = [
    ['directory', createDirectoryStore({ root: server.fileOf('many') }), servedKeys],
    ['s3', openBucket(server, { prefix: 'many' }).store, servedKeys],
    ['s3, client alone', openBucket(server, { prefix: 'many', url: pages.url }).store, keys],
  ]
  const rows = []
  try {
    for (const [name, store, expected] of stores) rows.push({ store: name, ...(await listAll(store, expected)) })
  } finally {
    await pages.close()
  }
  return { keys, stores: rows }
}

/** Answers every listing with the next page, up to this many keys in total. */
async function startPages(total: number) {
  const numberOf = (key: string): number => {
    const [, task, attempt, turn] = /task-(\d+)\/(\d+)\/turns\/(\d+)/.exec(key) ?? []
    return Number(task) * 1_000 + Number(attempt) * 100 + Number(turn) + 1
  }
  const server = createServer((incoming, outgoing) => {
    const after = new URL(incoming.url ?? '/', 'http://pages').searchParams.get('start-after')
    const first = after === null ? 0 : numberOf(after)
    const size = Math.min(1_000, total - first)
    const contents = Array.from({ length: size }, (_, at) => {
      const key = encodeURIComponent(`many/${keyOf(first + at)}`)
      return `<Contents><Key>${key}</Key><LastModified>2026-11-23T00:00:00.000Z</LastModified><ETag>&quot;0&quot;</ETag><Size>2</Size></Contents>`
    })
    const head = `<EncodingType>url</EncodingType><IsTruncated>${first + size < total}</IsTruncated>`
    outgoing.end(`<ListBucketResult>${head}${contents.join('')}</ListBucketResult>`)
  })
  const url = `http://127.0.0.1:${await listenOnLoopback(server)}`
  return { url, close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()) }
}

async function listAll(store: ArtifactStore, expected: number) {
  const before = process.memoryUsage().rss
  let [count, peak, slowestMs, last] = [0, before, 0, '']
  const start = performance.now()
  for (let after: string | null = ''; after !== null; ) {
    const asked = performance.now()
    const page = await store.listPage({ prefix: 'episodes/', after })
    slowestMs = Math.max(slowestMs, performance.now() - asked)
    for (const key of page.keys) {
      if (key <= last) violations += 1
      last = key
      if (count % 1_000 === 0 && key !== keyOf(count)) violations += 1
      count += 1
    }
    peak = Math.max(peak, process.memoryUsage().rss)
    after = page.next
  }
  if (count !== expected) violations += 1
  const wallS = (performance.now() - start) / 1000
  return {
    listed: count,
    wallS: round(wallS),
    keysPerSecond: Math.round(count / wallS),
    slowestPageMs: round(slowestMs),
    grownMiB: Math.round((peak - before) / 2 ** 20),
  }
}

/** Delays each request before passing it on, like a network with this round-trip time. */
async function startDelay(target: string, ms: number) {
  const { hostname, port } = new URL(target)
  const proxy = createServer((incoming, outgoing) => {
    void sleep(ms).then(() => {
      const { method, url: path, headers } = incoming
      const onward = request({ hostname, port, method, path, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(outgoing)
      })
      onward.on('error', () => outgoing.destroy())
      incoming.pipe(onward)
    })
  })
  const url = `http://127.0.0.1:${await listenOnLoopback(proxy)}`
  return {
    url,
    close: async () => {
      proxy.closeAllConnections()
      await new Promise((resolve) => proxy.close(resolve))
    },
  }
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
