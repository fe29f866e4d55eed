import { LonghaulError } from '../../contracts/errors.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { PolicyClient, PolicyVersion, SampleRequest } from '../../contracts/policy.types.ts'
import { judgeSlopes, judgeSamples, type SelfCheckFigures } from './self-check-rules.ts'

export interface SelfCheckInput {
  client: Pick<PolicyClient, 'sample' | 'score' | 'tokenize'>
  policy: PolicyVersion
  /** Largest median difference of log-probabilities that rounding explains. */
  tolerance: number
  /** Tokens looked at. @default 128 */
  tokens?: number
  signal: AbortSignal
}

/** Any text will do: what counts is that the server's own two answers about it agree. */
const PROMPT = 'def solve(values):\n    '
const MOST_TRIES = 16
/** A hot and a cold draw of one position tell whether the temperature reached both the draw and what is said about it. */
const TEMPERATURE = 0.5
const SLOPE_DRAWS = 12

/**
 * Whether a server samples from the policy's own distribution and says so truly, asked through the same requests that training
 * sends. Samples are scored again: a filter (top-k, top-p, a penalty, a logits processor) makes what was said of a sample larger
 * than its score. Draws of one position at another temperature show whether the temperature is heeded, and whether
 * log-probabilities are those after it: raw ones would hide a filter from the first check.
 * @throws LonghaulError `Model.Biased`, `Model.*`
 */
export async function selfCheck(input: SelfCheckInput): Promise<SelfCheckFigures> {
  const { client, policy, tolerance, tokens = 128, signal } = input
  const promptIds = await client.tokenize({ policy, text: PROMPT }, signal)
  const ask = (seed: number, changes: { maxTokens: number; temperature: number }) =>
    client.sample({ ...neutralRequest(policy, promptIds), seed, ...sampleOptions(changes) }, signal)

  const pairs: [told: number, scored: number][] = []
  for (let seed = 1; pairs.length < tokens && seed <= MOST_TRIES; seed++) {
    const { ids, logprobs } = await ask(seed, { maxTokens: Math.min(64, tokens - pairs.length), temperature: 1 })
    const scores = await client.score({ policy, ids: [...promptIds, ...ids] }, signal)
    pairs.push(...logprobs.map((told, at): [number, number] => [told, scores[promptIds.length - 1 + at] ?? Number.NaN]))
  }
  const samples = judgeSamples({ pairs, tolerance })

  const draws = new Map<number, { told: number; scored: number }>()
  for (let seed = 1; seed <= SLOPE_DRAWS && draws.size < 3; seed++) {
    const { ids, logprobs } = await ask(seed, { maxTokens: 1, temperature: TEMPERATURE })
    const id = ids[0] ?? -1
    if (draws.has(id)) continue
    const scores = await client.score({ policy, ids: [...promptIds, id] }, signal)
    draws.set(id, { told: logprobs[0] ?? Number.NaN, scored: scores[promptIds.length - 1] ?? Number.NaN })
  }
  const slopes = judgeSlopes({ draws: [...draws.values()], temperature: TEMPERATURE, tolerance })
  const figures = { ...samples.figures, ...slopes.figures }
  const problem = samples.problem ?? slopes.problem
  if (problem === null) return figures
  throw new LonghaulError({
    code: 'Model.Biased',
    message: `${problem}. Start the server with the flags of \`longhaul policy-server command\``,
    details: { policy, ...figures },
  })
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
