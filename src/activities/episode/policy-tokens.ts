import { readFile } from 'node:fs/promises'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeSpec } from '../../contracts/episodes.types.ts'
import { policyKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { createDefuse, type Defuse, readAddedTokens } from '../../scaffold/special-tokens.ts'

/** Policies whose tokens are kept: a run uses one or two at a time. */
const KEPT = 8

/** What foreign text may not spell to the policy of an episode. Asked once for each policy. */
export function createDefuseFor({
  store,
}: {
  store: Pick<ArtifactStore, 'readRecord'>
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
async function readTokens(store: Pick<ArtifactStore, 'readRecord'>, policy: string): Promise<string[]> {
  const ref = await store.readRecord<PolicyRef>(policyKeys.ref(policy))
  if (ref === null || !ref.uri.startsWith('file:')) return []
  try {
    return readAddedTokens(await readFile(new URL('tokenizer.json', `${ref.uri.replace(/\/$/, '')}/`), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
