import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import { chatFormats } from '../../scaffold/render.ts'
import { type Defuse, createDefuse, readAddedTokens } from '../../scaffold/special-tokens.ts'
import type { ChatClients, PolicyClients } from '../runtime/policy-clients.ts'
import type { RecipeReader } from '../runtime/stored-records.ts'
import { createChatSampler } from './chat-sampler.ts'
import type { Sampler } from './sampler.ts'
import { createTokenSampler } from './token-sampler.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { policyKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'

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
      const { endOfTurn } = chatFormats[spec.chatFormat ?? 'chatml']
      const ids = await policy.tokenize({ policy: spec.policy, text: endOfTurn }, signal)
      stopTokens.set(spec.policy, ids)
      return ids
    }
    return createTokenSampler({ policy, stopTokenIds, defuseFor: deps.defuseFor })
  }
}

/** Policies whose tokens are kept: a run uses one or two at a time. */
const KEPT = 8

/** What foreign text may not spell to the policy of an episode. Asked once for each policy. */
export function createDefuseFor({
  store,
}: {
  store: Pick<ArtifactStore, 'readRecord' | 'weights'>
}): (spec: Pick<EpisodeSpec, 'policy'>) => Promise<Defuse> {
  const known = new Map<string, Promise<Defuse>>()
  return ({ policy }) => {
    const found = known.get(policy)
    if (found !== undefined) return found
    const made = readTokens(store, policy).then((tokens) => createDefuse({ tokens }))
    known.set(policy, made)
    made.catch(() => known.delete(policy))
    const [oldest] = known.keys()
    if (known.size > KEPT && oldest !== undefined) known.delete(oldest)
    return made
  }
}

/** None where the policy's directory is not on this machine: what is known of any format is broken all the same. */
async function readTokens(
  { readRecord, weights }: Pick<ArtifactStore, 'readRecord' | 'weights'>,
  version: string,
): Promise<string[]> {
  const policy = await readRecord<PolicyRef>(policyKeys.ref(version))
  if (policy === null) return []
  const tokenizer = await weights.readFile({ policy, part: 'policy', name: 'tokenizer.json' })
  return tokenizer === null ? [] : readAddedTokens(Buffer.from(tokenizer).toString('utf8'))
}
