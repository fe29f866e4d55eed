import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LonghaulError } from '../../contracts/errors.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { ActivityWait } from '../../contracts/waits.types.ts'
import type { PolicyClient, SampleRequest } from '../../contracts/policy.types.ts'
import { createWaitBoard } from './wait-board.ts'
import { watchFinder, watchPolicy, watchStore } from './watch.ts'

const notServed = new LonghaulError({ code: 'Model.NotServed', message: 'Expected the policy to be served' })
const request = { policy: 'v000001-aaaaaaaa' } as SampleRequest
const never = new AbortController().signal

/** Serves another policy for the first calls. */
function serverOf(refusals: number, error = notServed) {
  let calls = 0
  const sample = async () => {
    if (calls++ < refusals) throw error
    return { text: 'x' }
  }
  return { client: { sample } as unknown as PolicyClient, calls: () => calls }
}

test('a sample waits while its server serves another policy, names the wait and then continues', async () => {
  const board = createWaitBoard()
  const { client, calls } = serverOf(3)
  const seen: (ActivityWait | null)[] = []
  const watched = watchPolicy({
    client: {
      ...client,
      sample: async (...call) => {
        seen.push(board.current())
        return client.sample(...call)
      },
    },
    url: 'http://gpu-1',
    servedWithinMs: 60_000,
    askEveryMs: 1,
  })
  assert.equal((await board.run(() => watched.sample(request, never))).text, 'x')
  assert.equal(calls(), 4)
  const last = seen.at(-1)
  assert.deepEqual(last?.on, { kind: 'policy-server', name: 'http://gpu-1' })
  assert.deepEqual([last?.trouble?.code, last?.trouble?.tries], ['Model.NotServed', 3])
})

test('a server that stays on another policy fails the sample in the end; other failures are thrown at once', async () => {
  const { client, calls } = serverOf(1)
  const watched = watchPolicy({ client, url: 'http://gpu-1', servedWithinMs: 0, askEveryMs: 1 })
  await assert.rejects(watched.sample(request, never), { code: 'Model.NotServed' })
  assert.equal(calls(), 1)
  const refused = serverOf(1, new LonghaulError({ code: 'Config.Invalid', message: 'no' }))
  const other = watchPolicy({ client: refused.client, url: 'u', servedWithinMs: 60_000, askEveryMs: 1 })
  await assert.rejects(other.sample(request, never), { code: 'Config.Invalid' })
  assert.equal(refused.calls(), 1)
})

test("a cancelled wait throws the signal's own reason", async () => {
  const controller = new AbortController()
  const { client } = serverOf(99)
  const watched = watchPolicy({ client, url: 'u', servedWithinMs: 60_000, askEveryMs: 60_000 })
  const waiting = watched.sample(request, controller.signal)
  controller.abort(new Error('stop'))
  await assert.rejects(waiting, /stop/)
})

/** Fails at first, with one code after another. */
function storeOf(codes: readonly FailureCode[]) {
  let calls = 0
  const read = async () => {
    const code = codes[calls]
    calls += 1
    if (code !== undefined) throw new LonghaulError({ code, message: `Expected better than ${code}` })
    return new Uint8Array()
  }
  return { store: { read } as unknown as ArtifactStore, calls: () => calls }
}

const OUTAGE: FailureCode[] = ['Artifact.Unavailable', 'Artifact.OutOfDisk', 'Artifact.OutOfDisk']
const HOUR_MS = 3_600_000
const longAttempt = { signal: never, endsAtMs: Number.POSITIVE_INFINITY }

test('repeats an operation while the store is away or full, and names the failure meanwhile', async () => {
  const board = createWaitBoard(longAttempt)
  const { store, calls } = storeOf(OUTAGE)
  const seen: (ActivityWait | null)[] = []
  const looking = { read: async (key: string) => (seen.push(board.current()), store.read(key)) }
  const watched = watchStore({
    store: looking as unknown as ArtifactStore,
    name: '/data',
    patienceMs: HOUR_MS,
    firstPauseMs: 1,
  })
  assert.deepEqual(await board.run(() => watched.read('a')), new Uint8Array())
  assert.equal(calls(), 4)
  assert.deepEqual(
    seen.map((wait) => [wait?.on.kind, wait?.trouble?.code, wait?.trouble?.tries]),
    [
      ['artifact-store', undefined, undefined],
      ['artifact-store', 'Artifact.Unavailable', 1],
      ['artifact-store', 'Artifact.OutOfDisk', 1],
      ['artifact-store', 'Artifact.OutOfDisk', 2],
    ],
  )
})

for (const { title, limits, patienceMs, codes, code } of [
  { title: 'without patience', limits: longAttempt, patienceMs: 0, codes: OUTAGE, code: 'Artifact.Unavailable' },
  {
    title: 'near the limit of the attempt',
    limits: { signal: never, endsAtMs: Date.now() + 30_000 },
    patienceMs: HOUR_MS,
    codes: OUTAGE,
    code: 'Artifact.Unavailable',
  },
  { title: 'outside of an activity', limits: null, patienceMs: HOUR_MS, codes: OUTAGE, code: 'Artifact.Unavailable' },
  {
    title: 'that no waiting mends',
    limits: longAttempt,
    patienceMs: HOUR_MS,
    codes: ['Artifact.Conflict'],
    code: 'Artifact.Conflict',
  },
] satisfies { title: string; limits: object | null; patienceMs: number; codes: FailureCode[]; code: FailureCode }[]) {
  test(`throws a store failure at once: ${title}`, async () => {
    const { store, calls } = storeOf(codes)
    const watched = watchStore({ store, name: '/data', patienceMs, firstPauseMs: 1 })
    const read = () => watched.read('a')
    await assert.rejects(limits === null ? read() : createWaitBoard(limits).run(read), { code })
    assert.equal(calls(), 1)
  })
}

test("a cancelled store wait throws the signal's own reason at once", async () => {
  const controller = new AbortController()
  const { store } = storeOf(OUTAGE)
  const watched = watchStore({ store, name: '/data', patienceMs: HOUR_MS, firstPauseMs: HOUR_MS / 2 })
  const reading = createWaitBoard({ ...longAttempt, signal: controller.signal }).run(() => watched.read('a'))
  const reason = new Error('cancelled')
  setTimeout(() => controller.abort(reason), 20)
  await assert.rejects(reading, (error) => error === reason)
})

/** A look for an image fails; `answersBy` notes until when the engine was waited for. */
function engineOf(code: FailureCode) {
  const asked: number[] = []
  const error = new LonghaulError({ code, message: 'Expected the engine to answer' })
  const refuse = async () => {
    throw error
  }
  const pulse = {
    silentSinceMs: () => null,
    during: <T>(work: () => Promise<T>) => work(),
    answersBy: async (untilMs: number) => {
      asked.push(untilMs)
      return true
    },
  }
  const finder = watchFinder({ finder: { isHere: refuse, isInRegistry: refuse }, engine: { name: 'e', pulse } })
  return { look: () => finder.isHere('image', never), asked, error }
}

test('waits for a restarting engine within the limit of the attempt before it throws', async () => {
  const { look, asked, error } = engineOf('Sandbox.EngineUnavailable')
  const endsAtMs = Date.now() + 90_000
  await assert.rejects(createWaitBoard(longAttempt).run(look), (told) => told === error)
  await assert.rejects(createWaitBoard({ signal: never, endsAtMs }).run(look), (told) => told === error)
  const [first = 0, second] = asked
  assert.ok(first > Date.now() + 4 * 60_000 && first <= Date.now() + 5 * 60_000, String(first))
  assert.equal(second, endsAtMs - 60_000)
})

test('throws at once for a lost sandbox and for an engine outside of an activity', async () => {
  const lost = engineOf('Sandbox.Lost')
  await assert.rejects(createWaitBoard(longAttempt).run(lost.look), { code: 'Sandbox.Lost' })
  const outside = engineOf('Sandbox.EngineUnavailable')
  await assert.rejects(outside.look(), { code: 'Sandbox.EngineUnavailable' })
  assert.deepEqual([lost.asked, outside.asked], [[], []])
})
