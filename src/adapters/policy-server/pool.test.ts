import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { PolicyClient } from '../../contracts/policy.types.ts'
import { orderFor, poolOf } from './pool.ts'

const urls = ['http://a', 'http://b']
const signal = new AbortController().signal

/** Two servers that note who was asked, and what each does. */
function twoServers(faults: Map<string, FailureCode>) {
  const asked: string[] = []
  const servers = urls.map((url) => {
    const tokenize = async (): Promise<number[]> => {
      asked.push(url)
      const code = faults.get(url)
      if (code !== undefined) throw new LonghaulError({ code, message: url })
      return [1]
    }
    return { url, client: { tokenize } as unknown as PolicyClient }
  })
  const [first = '', second = ''] = orderFor('text', servers).map(({ url }) => url)
  return { servers, asked, first, second }
}

test('after a silent server the next one answers and is asked first for half a minute', async () => {
  const faults = new Map<string, FailureCode>()
  const { servers, asked, first, second } = twoServers(faults)
  let nowMs = 0
  const pool = poolOf(servers, { now: () => nowMs })
  const ask = () => pool.tokenize({ policy: 'v', text: 'text' }, signal)
  faults.set(first, 'Model.Unavailable')
  await ask()
  await ask()
  assert.deepEqual(asked, [first, second, second])
  faults.clear()
  nowMs = 30_000
  await ask()
  assert.deepEqual(asked.at(-1), first)
})

test('asks two silent servers in turn until the timeout', async () => {
  const { servers, asked, first, second } = twoServers(new Map(urls.map((url) => [url, 'Model.Unavailable'])))
  let nowMs = 0
  const pool = poolOf(servers, { unavailableTimeoutMs: 40_000, now: () => (nowMs += 5_000) })
  await assert.rejects(pool.tokenize({ policy: 'v', text: 'text' }, signal), { code: 'Model.Unavailable' })
  assert.ok(asked.length > 2, String(asked.length))
  for (const [at, url] of asked.entries()) assert.equal(url, [first, second][at % 2])
})

test('a refusal is an answer, and no other server is asked', async () => {
  const { servers, asked, first } = twoServers(new Map(urls.map((url) => [url, 'Model.NotServed'])))
  const pool = poolOf(servers, { unavailableTimeoutMs: 40_000 })
  await assert.rejects(pool.tokenize({ policy: 'v', text: 'text' }, signal), { code: 'Model.NotServed' })
  assert.deepEqual(asked, [first])
})
