/**
 * The story: a row names the address of a file that its tests compare with, and no hash. The host of that address changes the file
 * after the gate, so patches that were right are graded as wrong, or wrong ones as right.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { v5 } from '../../../test/support/datasets/published-rows.ts'
import { useEnvironment } from '../../../test/support/environment.ts'
import { closeServer, listenOnLoopback } from '../../../test/support/loopback.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { normalizeRow } from '../../adapters/datasets/normalize-row.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { GradeRunResult, SandboxHost } from '../../contracts/sandbox.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { runGrading } from './run-grading.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-pin-files-'))
let served: Record<string, string> = {}
const server = createServer((request, response) => response.end(served[request.url ?? ''] ?? ''))
const port = await listenOnLoopback(server)
useEnvironment({ after }, { LONGHAUL_ASSET_HOSTS: `127.0.0.1:${port}` })
after(async () => {
  await closeServer(server)
  rmSync(root, { recursive: true })
})
beforeEach(() => {
  served = { '/a.png': 'first', '/b.png': 'other' }
})

const entry = (name: string, pin: object = {}) => ({
  path: `tests/${name}`,
  url: `http://127.0.0.1:${port}/${name}`,
  ...pin,
})

/** Grades in a store of its own, and counts the containers. */
function gradingOf(store: string, entries: object[]) {
  const task = normalizeRow({ ...v5.row(), image_assets: { test_patch: entries } })
  let runs = 0
  const grade = async (): Promise<GradeRunResult> => {
    runs += 1
    const machine = { engine: '1', cgroupVersion: 2, cpuset: '0', memoryMiB: 1, startedAtMs: 0, endedAtMs: 1 } as const
    const log = Buffer.from('log')
    return { kind: 'patch-did-not-apply', exitCode: 1, log, imageDigest: 'sha256:0', wallMs: 1, machine }
  }
  const deps = {
    store: createDirectoryStore({ root: join(root, store) }),
    sandbox: { grade } as unknown as SandboxHost,
    ensureImage: async () => undefined,
  }
  const attempt = (number: number) =>
    runGrading(
      deps,
      {
        run: 'r',
        episode: 'r/e',
        owner: 'o',
        role: 'grader',
        limits: { cpus: 1, memoryMiB: 1, pids: 1 },
        patch: new Uint8Array(),
        task,
        logKey: `log-${number}.txt`,
      },
      new AbortController().signal,
    )
  return { attempt, runs: () => runs }
}

async function failureOf(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => assert.fail('the attempt was graded instead of failing'),
    (reason: unknown) => reason,
  )
  assert.ok(isLonghaulError(error), String(error))
  assert.deepEqual([error.code, error.retryable], ['Grading.Failed', true])
  return error.message
}

test('a fetched file with other bytes than at the first grading fails with both hashes before any container runs', async () => {
  const { attempt, runs } = gradingOf('changed', [entry('a.png'), entry('b.png')])
  await attempt(1)
  await attempt(2)
  assert.equal(runs(), 2)
  served['/b.png'] = 'changed'
  const message = await failureOf(attempt(3))
  assert.equal(runs(), 2)
  for (const part of ['tests/b.png', sha256Hex('other'), sha256Hex('changed'), '--pin-files']) {
    assert.ok(message.includes(part), `${part} in ${message}`)
  }
  served['/b.png'] = 'other'
  await attempt(4)
})

test('of two workers that first fetch different bytes one pins them, and the other fails', async () => {
  const { attempt, runs } = gradingOf('race', [entry('a.png')])
  let bytes = 0
  Object.defineProperty(served, '/a.png', { get: () => `answer ${(bytes += 1)}` })
  const ended = await Promise.allSettled([attempt(1), attempt(2)])
  assert.deepEqual(ended.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  assert.equal(runs(), 1)
})

test('a row with the hash of its file is compared at the first grading, and another hash is another task', async () => {
  const pinned = (content: string) => entry('a.png', { sha256: sha256Hex(content), bytes: content.length })
  assert.match(await failureOf(gradingOf('row', [pinned('older')]).attempt(1)), new RegExp(sha256Hex('older')))
  await gradingOf('row', [pinned('first')]).attempt(1)
  served['/a.png'] = 'newer'
  await failureOf(gradingOf('row', [pinned('first')]).attempt(2))
  await gradingOf('row', [pinned('newer')]).attempt(2)
})
