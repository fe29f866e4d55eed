import type { SamplingOptions } from '../../contracts/episodes.types.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import { problem, type Settings } from './combination.ts'
import type { RecipeProblem } from './recipe-problem.ts'

/** What OpenAI's own interface has no field for: it can only be off. */
const UNKNOWN_TO_STANDARD = ['topK', 'minP', 'repetitionPenalty'] as const satisfies (keyof SamplingOptions)[]

/** An endpoint that would not be found, or that would leave out in silence what the recipe asks for. */
export function chatEndpoint({ policyServer, evaluate, rollout }: Settings): RecipeProblem[] {
  const { kind, url, chat } = policyServer
  if (kind !== 'chat') {
    return chat === null
      ? []
      : [problem(['policyServer', 'chat'], `has no effect with kind: ${kind}`, 'remove it, or use kind: chat')]
  }
  const problems: RecipeProblem[] = []
  if (url === null) {
    problems.push(
      problem(
        ['policyServer', 'kind'],
        'expected policyServer.url beside kind: chat, got nothing',
        'the base address of the endpoint, as https://api.example.com/v1',
      ),
    )
  } else if (hasSecrets(url)) {
    problems.push(
      problem(
        ['policyServer', 'url'],
        'expected an address without user, password or query: recipes are stored with their runs',
        'put the key into a variable of the workers and its name into policyServer.chat.apiKeyVariable',
      ),
    )
  }
  const sampling = evaluate.sampling === 'modelDefault' ? evaluate.modelSampling : rollout.sampling
  if (chat?.samplingFields === 'standard' && sampling !== null) {
    const where = evaluate.sampling === 'modelDefault' ? ['evaluate', 'modelSampling'] : ['rollout', 'sampling']
    for (const key of UNKNOWN_TO_STANDARD) {
      const off = NEUTRAL_SAMPLING[key]
      if (sampling[key] === off) continue
      problems.push(
        problem(
          [...where, key],
          `expected ${off} with policyServer.chat.samplingFields: standard, got ${sampling[key]}`,
          'OpenAI’s interface has no such field; an endpoint of vLLM, SGLang or llama.cpp takes samplingFields: all',
        ),
      )
    }
  }
  return problems
}

function hasSecrets(url: string): boolean {
  const { username, password, search } = new URL(url)
  return username !== '' || password !== '' || search !== ''
}
