import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomFrom } from '../datasets/synthetic/compose.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { selfCheck, type SelfCheckInput } from './self-check.ts'

type Logits = (prefix: readonly number[]) => number[]

const PROMPT_IDS = [1, 2, 3]
/** Certain of token 0 after the prompt, of two minds about every token after that. */
const certainAtFirst: Logits = (prefix) => (prefix.length === PROMPT_IDS.length ? [30, 0, 0, 0] : [1, 0.5, 0, -1])
const certainAlways: Logits = () => [14, 0, -1, 0]

interface Lies {
  /** Says log-probabilities from before the temperature. */
  raw?: boolean
  ignoresTemperature?: boolean
  /** Draws from this many of the likeliest tokens. */
  topK?: number
  /** Says log-probabilities of the distribution that it was asked for. */
  hides?: boolean
}

function logSoftmax(logits: readonly number[], temperature: number): number[] {
  const scaled = logits.map((one) => one / temperature)
  const total = Math.log(scaled.reduce((sum, one) => sum + Math.exp(one), 0))
  return scaled.map((one) => one - total)
}

/** A server of a language model that is a function. */
function serverOf(
  logits: Logits,
  { raw = false, ignoresTemperature = false, topK = Number.POSITIVE_INFINITY, hides = false }: Lies = {},
): SelfCheckInput['client'] {
  return {
    tokenize: async () => PROMPT_IDS,
    score: async ({ ids }) =>
      ids.slice(1).map((id, at) => logSoftmax(logits(ids.slice(0, at + 1)), 1)[id] ?? Number.NEGATIVE_INFINITY),
    sample: async ({ promptIds, maxTokens, seed, sampling, policy }) => {
      const temperature = ignoresTemperature ? 1 : sampling.temperature
      const filter = (all: readonly number[]): number[] => {
        const least = all.toSorted((a, b) => b - a)[topK - 1] ?? Number.NEGATIVE_INFINITY
        return all.map((one) => (one < least ? Number.NEGATIVE_INFINITY : one))
      }
      const random = randomFrom(`self-check/${seed}/${sampling.temperature}`)
      const ids: number[] = []
      const logprobs: number[] = []
      while (ids.length < maxTokens) {
        const now = logits([...promptIds, ...ids])
        const drawn = logSoftmax(filter(now), temperature)
        let left = random.below(1_000_000) / 1_000_000
        const id = drawn.findIndex((one) => (left -= Math.exp(one)) <= 0)
        ids.push(id)
        const said = hides ? logSoftmax(now, sampling.temperature) : raw ? logSoftmax(now, 1) : drawn
        logprobs.push(said[id] ?? Number.NaN)
      }
      return { policy, ids, logprobs, text: '', finishReason: 'length' }
    },
  }
}

const check = (client: SelfCheckInput['client']) =>
  selfCheck({ client, policy: 'v000001-01234567', tolerance: 0.02, signal: new AbortController().signal })

for (const [title, logits] of [
  ['certain where its prompt ends', certainAtFirst],
  ['certain everywhere', certainAlways],
] as const) {
  test(`a correct server passes with a policy that is ${title}`, async () => {
    const { draws, slopeError } = await check(serverOf(logits))
    assert.ok(draws >= 2, `${draws} draws`)
    assert.ok(slopeError !== null && slopeError < 1e-6, String(slopeError))
  })

  for (const lies of [{ raw: true }, { ignoresTemperature: true }, { raw: true, ignoresTemperature: true }]) {
    test(`a server with ${JSON.stringify(lies)} is refused with a policy that is ${title}`, async () => {
      await assert.rejects(check(serverOf(logits, lies)), { code: 'Model.Biased', message: /temperature/ })
    })
  }
}

test('a policy that is certain of each token gives only one draw to check', async () => {
  assert.equal((await check(serverOf(() => [500, 0, 0, 0]))).draws, 1)
})

/** As a language model: some likely tokens and many that are not, others after each prefix. */
const ofManyTokens: Logits = (prefix) => {
  const random = randomFrom(`logits/${prefix.length % 8}`)
  return Array.from({ length: 200 }, (_, token) => (token < 3 ? 4 : 0) + random.below(1_000) / 250)
}

test('samples of a correct server reach its whole vocabulary', async () => {
  const { reach } = await check(serverOf(ofManyTokens))
  assert.ok(reach !== null && Math.abs(reach - 1) < 0.1, String(reach))
})

for (const [title, logits] of [
  ['of many tokens', ofManyTokens],
  ['certain of every token', () => [500, 0, 0, 0]],
] as const) {
  test(`a correct server with temperatures up to 2 passes with a policy that is ${title}, with unknown reach`, async () => {
    const right = serverOf(logits)
    const sample: typeof right.sample = async (request, signal) => {
      const { temperature } = request.sampling
      if (temperature <= 2) return right.sample(request, signal)
      // In vLLM's words.
      throw new LonghaulError({ code: 'Config.Invalid', message: `temperature must be in [0, 2], got ${temperature}` })
    }
    assert.equal((await check({ ...right, sample })).reach, null)
  })
}

for (const lies of [{ topK: 20 }, { topK: 120 }, { ignoresTemperature: true }]) {
  test(`a server with ${JSON.stringify(lies)} is refused even when its log-probabilities hide that`, async () => {
    await assert.rejects(check(serverOf(ofManyTokens, { ...lies, hides: true })), {
      code: 'Model.Biased',
      message: /whole vocabulary/,
    })
  })
}
