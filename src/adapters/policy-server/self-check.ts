import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { PolicyClient, PolicyVersion, SampleRequest } from '../../contracts/policy.types.ts'
import {
  isLevel,
  judgeReach,
  judgeSamples,
  judgeSlopes,
  REACH_DRAWS,
  type SelfCheckFigures,
  type SlopeVerdict,
} from './self-check-rules.ts'

export interface SelfCheckInput {
  client: Pick<PolicyClient, 'sample' | 'score' | 'tokenize'>
  policy: PolicyVersion
  /** Largest median difference of log-probabilities that rounding explains. */
  tolerance: number
  /** Number of tokens to check. @default 128 */
  tokens?: number
  signal: AbortSignal
}

/** Any text works, because only the agreement of the server's two answers about it matters. */
const PROMPT = 'def solve(values):\n    '
const MOST_TRIES = 16
/** Temperatures of the draws. The first is the lowest that shows a difference. The higher ones are for a policy that is certain of
 *  every token. */
const TEMPERATURES = [0.5, 2, 8] as const
/** Number of positions that are sampled at each temperature, the most uncertain first. */
const POSITIONS = 4
const SLOPE_DRAWS = 12
/** Temperatures for many draws, tried until tokens are about equally likely. At the flat temperature below they are. */
const REACH_TEMPERATURES = [2, 8, 32] as const
/** The highest temperature that the embedded server accepts. */
const FLAT_TEMPERATURE = 100
const FLAT_DRAWS = 64
const TOKENS_A_REQUEST = 32
const REQUESTS_AT_ONCE = 16
const MOST_REACH_REQUESTS = 128
/** In nats. Below this, a probability is 1 apart from fp32 rounding. */
const LEAST_DOUBT = 1e-7

const BIASES = {
  wrong:
    'Expected log-probabilities after the temperature; the server reports raw ones, or samples at another temperature',
  untold:
    'Expected two different tokens at one position even at a high temperature; the server seems to ignore the temperature',
} as const

/**
 * Checks that a server samples from the policy's own distribution and reports it truthfully, through the same requests that training
 * sends.
 * Samples are scored again: a filter (top-k, top-p, a penalty, a logits processor) makes the reported log-probability larger than the
 * score.
 * Draws at one position and another temperature show whether the temperature is applied and whether log-probabilities are reported
 * after it; raw ones would hide a filter from the first check. A server whose draws show neither is refused.
 * A filter or another temperature that does not show in the reported log-probabilities is detected by how likely many samples at a
 * higher temperature are.
 * @throws LonghaulError `Model.Biased`, `Model.*`
 */
export async function selfCheck(input: SelfCheckInput): Promise<SelfCheckFigures> {
  const { client, policy, tolerance, tokens = 128, signal } = input
  const promptIds = await client.tokenize({ policy, text: PROMPT }, signal)
  const ask = (prefix: number[], seed: number, changes: { maxTokens: number; temperature: number }) =>
    client.sample({ ...neutralRequest(policy, prefix), seed, ...sampleOptions(changes) }, signal)

  const pairs: [told: number, scored: number][] = []
  const positions: Position[] = []
  for (let seed = 1; pairs.length < tokens && seed <= MOST_TRIES; seed++) {
    const { ids, logprobs } = await ask(promptIds, seed, {
      maxTokens: Math.min(64, tokens - pairs.length),
      temperature: 1,
    })
    const scores = await client.score({ policy, ids: [...promptIds, ...ids] }, signal)
    logprobs.forEach((told, at) => {
      pairs.push([told, scores[promptIds.length - 1 + at] ?? Number.NaN])
      positions.push({ prefix: [...promptIds, ...ids.slice(0, at)], told })
    })
  }
  const samples = judgeSamples({ pairs, tolerance })
  // The first problem ends the check, because later steps cost the server hundreds of tokens.
  const requireNone = (problem: string | null, figures: Partial<SelfCheckFigures>): void => {
    if (problem === null) return
    throw new LonghaulError({
      code: 'Model.Biased',
      message: `${problem}. Start the server with the flags of \`longhaul policy-server command\``,
      details: { policy, ...samples.figures, ...figures },
    })
  }
  requireNone(samples.problem, {})
  const drawAt = async (prefix: number[], temperature: number): Promise<SlopeVerdict> => {
    const draws = new Map<number, { told: number; scored: number }>()
    for (let seed = 1; seed <= SLOPE_DRAWS && draws.size < 3; seed++) {
      const { ids, logprobs } = await ask(prefix, seed, { maxTokens: 1, temperature })
      const id = ids[0] ?? -1
      if (draws.has(id)) continue
      const scores = await client.score({ policy, ids: [...prefix, id] }, signal)
      draws.set(id, { told: logprobs[0] ?? Number.NaN, scored: scores[prefix.length - 1] ?? Number.NaN })
    }
    return judgeSlopes({ draws: [...draws.values()], temperature, tolerance })
  }
  // An unlikely token that was sampled marks a position where the policy is uncertain.
  const uncertain = positions.toSorted((one, other) => one.told - other.told).slice(0, POSITIONS)
  const slopes = await firstTelling(uncertain, drawAt)
  const { draws, slopeError } = slopes
  // A policy that is certain of every token gives the same answer at each of these temperatures.
  const isCertain = pairs.length > 0 && pairs.every(([told]) => told > -LEAST_DOUBT)
  const isFine = slopes.kind === 'right' || (slopes.kind === 'untold' && isCertain)
  const biased = isFine ? null : BIASES[slopes.kind === 'wrong' ? 'wrong' : 'untold']
  requireNone(biased, { draws, slopeError })
  const untilDrawn = async (temperature: number, count: number): Promise<number[]> => {
    const told: number[] = []
    // A sample may end with its first token, so the requests are counted too.
    for (let seed = 1; told.length < count && seed < MOST_REACH_REQUESTS; seed += REQUESTS_AT_ONCE) {
      const left = Math.ceil((count - told.length) / TOKENS_A_REQUEST)
      const seeds = Array.from({ length: Math.min(REQUESTS_AT_ONCE, left) }, (_, at) => seed + at)
      const answers = await Promise.all(
        seeds.map((one) => ask(promptIds, one, { maxTokens: TOKENS_A_REQUEST, temperature })),
      )
      told.push(...answers.flatMap(({ logprobs }) => logprobs))
    }
    return told
  }
  const { reach, problem: narrow } = await reachOf(untilDrawn, tolerance)
  const figures = { ...samples.figures, draws, slopeError, reach }
  requireNone(narrow, figures)
  return figures
}

/** The tokens before a sampled token, and the log-probability reported for it. */
interface Position {
  prefix: number[]
  told: number
}

async function firstTelling(
  positions: readonly Position[],
  drawAt: (prefix: number[], temperature: number) => Promise<SlopeVerdict>,
): Promise<SlopeVerdict> {
  let slopes: SlopeVerdict = { kind: 'untold', draws: 0, slopeError: null }
  try {
    for (const temperature of TEMPERATURES) {
      for (const { prefix } of positions) {
        slopes = await drawAt(prefix, temperature)
        if (slopes.kind !== 'untold') return slopes
      }
    }
  } catch (error) {
    if (!refusesTemperature(error)) throw error
  }
  return slopes
}

async function reachOf(
  untilDrawn: (temperature: number, count: number) => Promise<number[]>,
  tolerance: number,
): Promise<ReturnType<typeof judgeReach>> {
  try {
    for (const temperature of REACH_TEMPERATURES) {
      if (!isLevel(await untilDrawn(temperature, FLAT_DRAWS))) continue
      const [told, flat] = await Promise.all([
        untilDrawn(temperature, REACH_DRAWS),
        untilDrawn(FLAT_TEMPERATURE, FLAT_DRAWS),
      ])
      return judgeReach({ told, flat, tolerance })
    }
  } catch (error) {
    if (!refusesTemperature(error)) throw error
  }
  return { reach: null, problem: null }
}

/** vLLM accepts no temperature above 2. What only a higher one would show remains unchecked for such a server. */
function refusesTemperature(error: unknown): boolean {
  return isLonghaulError(error) && error.code === 'Config.Invalid' && /\btemperature\b/.test(error.message)
}

function sampleOptions({ maxTokens, temperature }: { maxTokens: number; temperature: number }) {
  return { maxTokens, sampling: { ...NEUTRAL_SAMPLING, temperature } }
}

function neutralRequest(
  policy: PolicyVersion,
  promptIds: number[],
): Omit<SampleRequest, 'maxTokens' | 'seed' | 'sampling'> {
  return { policy, promptIds, stopTokenIds: [], session: `self-check/${policy}` }
}
