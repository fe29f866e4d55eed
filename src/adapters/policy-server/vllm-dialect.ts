import type { PolicyVersion } from '../../contracts/policy.types.ts'
import { bad, isObject } from './reply.ts'
import {
  completionBody,
  completionsDialect,
  readCompletion,
  readPromptLogprobs,
  scoringBody,
  served,
} from './completions-dialect.ts'
import { type Dialect, type Exchange, type LoadAsk, notRestarted, type Send, SMALL_ANSWER_MS } from './dialect.ts'
import { localPath } from './embedded-dialect.ts'

/**
 * vLLM, whose requests were held against 0.33.0.
 * Restarted for each policy, its name is the version (`--served-model-name`): a server that was not restarted answers 404.
 * With `reload` it reads new weights in place, which its development mode allows (`VLLM_SERVER_DEV_MODE=1`). Its name cannot
 * change then, so requests name none, and the label of the weights in every answer is the proof.
 */
export function vllmDialect({ reload }: { reload: boolean }): Dialect {
  const byName = completionsDialect({ leastTokens: 1 })
  if (!reload) {
    return {
      ...byName,
      async load({ policy }, send) {
        const names = await send(served())
        if (!names.includes(policy.version)) throw notRestarted({ kind: 'vllm', policy, served: names.join(' ') })
      },
    }
  }
  return {
    sample: (request) => ({
      ...byName.sample(request),
      body: unnamed(completionBody(request)),
      parse: (answer) => readCompletion({ answer, request, proof: 'label' }),
    }),
    tokenize: (request) => {
      const exchange = byName.tokenize(request)
      return { ...exchange, body: unnamed(exchange.body ?? {}) }
    },
    score: ({ policy, ids }) => ({
      ...byName.score({ policy, ids }),
      body: unnamed(scoringBody({ policy, ids, maxTokens: 1 })),
      parse: (answer) => readPromptLogprobs({ answer, ids, policy, proof: 'label' }),
    }),
    served: label,
    async load(ask, send) {
      const [version] = await send(label())
      if (version === ask.policy.version) await send(goOn())
      else await reloadInPlace(ask, send)
    },
  }
}

function label(): Exchange<PolicyVersion[]> {
  return { path: '/weight_info', policy: null, timeoutMs: SMALL_ANSWER_MS, parse: readLabel }
}

/**
 * The label is cleared first and set last: after a failure in between the server answers under a name that no client requests,
 * and the next attempt starts over. Pausing empties the prefix cache; requests in flight are aborted and sampled again.
 */
async function reloadInPlace({ policy }: LoadAsk, send: Send): Promise<void> {
  const { version } = policy
  await send({ path: '/pause?mode=abort&clear_cache=true', body: {}, policy: null, parse: () => null })
  await send(relabel(`loading-${version}`))
  await send({
    path: '/collective_rpc',
    body: { method: 'reload_weights', kwargs: { weights_path: localPath(policy.uri) } },
    policy: null,
    parse: () => null,
  })
  await send(relabel(version))
  await send(goOn())
  const [now] = await send(label())
  if (now !== version) throw bad('the loaded version to be the asked one', { asked: version, loaded: now ?? '' })
}

function relabel(version: string): Exchange<null> {
  return { path: '/update_weight_version', body: { new_version: version }, policy: null, parse: () => null }
}

function goOn(): Exchange<null> {
  return { path: '/resume', body: {}, policy: null, parse: () => null }
}

function unnamed(body: object): object {
  return Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'model'))
}

function readLabel(answer: unknown): PolicyVersion[] {
  const version = isObject(answer) ? answer['weight_version'] : undefined
  if (typeof version !== 'string') throw bad('weight_version in /weight_info', { got: typeof version })
  return [version]
}
