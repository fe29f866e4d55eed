import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import { chatml } from '../../scaffold/chat-formats.ts'
import type { Defuse } from '../../scaffold/special-tokens.ts'
import type { ChatClients, PolicyClients } from '../runtime/policy-clients.ts'
import type { RecipeReader } from '../runtime/stored-recipe.ts'
import { createChatSampler } from './chat-sampler.ts'
import type { Sampler } from './sampler.ts'
import { createTokenSampler } from './token-sampler.ts'

/** The sampler of a run, by what its recipe's server speaks. */
export type Samplers = (run: string) => Promise<Sampler>

export function createSamplers(deps: {
  recipes: RecipeReader
  policies: PolicyClients
  chats: ChatClients
  defuseFor: (spec: EpisodeSpec) => Promise<Defuse>
}): Samplers {
  const stopTokens = new Map<string, number[]>()
  return async (run) => {
    const { kind } = (await deps.recipes(run)).policyServer
    if (kind === 'chat') return createChatSampler({ chat: await deps.chats(run) })
    const policy = await deps.policies(run)
    // Asked of the policy's own tokenizer, once per policy.
    const stopTokenIds = async (spec: EpisodeSpec, signal: AbortSignal): Promise<number[]> => {
      const known = stopTokens.get(spec.policy)
      if (known !== undefined) return known
      const ids = await policy.tokenize({ policy: spec.policy, text: chatml.endOfTurn }, signal)
      stopTokens.set(spec.policy, ids)
      return ids
    }
    return createTokenSampler({ policy, stopTokenIds, defuseFor: deps.defuseFor })
  }
}
