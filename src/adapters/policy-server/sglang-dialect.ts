import type { PolicyVersion } from '../../contracts/policy.types.ts'
import { bad, isObject } from './answer.ts'
import { affinityHeaders, tokenize } from './completions-dialect.ts'
import { type Dialect, type Exchange, type LoadAsk, type Send, SMALL_ANSWER_MS } from './dialect.ts'
import { localPath } from './embedded-dialect.ts'
import { notRestarted } from './restart-advice.ts'
import { generateBody, readGenerated, readScores, scoreBody } from './sglang-generate.ts'

/**
 * SGLang through its native `/generate`: the OpenAI endpoint returns no ids. Requests name no model, so what proves the weights
 * is `weight_version` in every answer: a server that answers with another one is refused, answer by answer.
 * Requests were held against SGLang 0.5.23.
 * @param reload whether new weights are read in place (`/update_weights_from_disk`) or by the operator's restart
 */
export function sglangDialect({ reload }: { reload: boolean }): Dialect {
  return {
    sample: (request) => ({
      path: '/generate',
      body: generateBody(request),
      policy: request.policy,
      headers: affinityHeaders(request),
      parse: (answer) => readGenerated({ answer, request }),
    }),
    tokenize,
    score: ({ policy, ids }) => ({
      path: '/generate',
      body: scoreBody({ policy, ids }),
      policy,
      parse: (answer) => readScores({ answer, ids, policy }),
    }),
    served,
    async load({ policy, ...ask }, send) {
      const [version] = await send(served())
      if (version === policy.version) return void (reload && (await send(goOn())))
      if (!reload) throw notRestarted({ kind: 'sglang', policy, served: version ?? '' })
      await reloadInPlace({ policy, ...ask }, send)
    },
  }
}

function served(): Exchange<PolicyVersion[]> {
  return { path: '/model_info', policy: null, timeoutMs: SMALL_ANSWER_MS, parse: readVersion }
}

/**
 * The label is cleared first and set last: after a failure in between the server answers under a name that no client requests,
 * and the next attempt starts over. Requests of other runs wait meanwhile; requests in flight are aborted and sampled again.
 */
async function reloadInPlace({ policy }: LoadAsk, send: Send): Promise<void> {
  const { version } = policy
  await send({ path: '/pause_generation', body: { mode: 'abort' }, policy: null, parse: () => null })
  await send(relabel(`loading-${version}`))
  await send({
    path: '/update_weights_from_disk',
    body: {
      model_path: localPath(policy.uri),
      weight_version: version,
      abort_all_requests: true,
      flush_cache: true,
    },
    policy: null,
    parse: readUpdated,
  })
  await send(goOn())
  const [now] = await send(served())
  if (now !== version) throw bad('the loaded version to be the asked one', { asked: version, loaded: now ?? '' })
}

function relabel(version: string): Exchange<null> {
  return {
    path: '/update_weight_version',
    body: { new_version: version, abort_all_requests: true },
    policy: null,
    parse: () => null,
  }
}

function goOn(): Exchange<null> {
  return { path: '/continue_generation', body: { torch_empty_cache: true }, policy: null, parse: () => null }
}

function readVersion(answer: unknown): PolicyVersion[] {
  const version = isObject(answer) ? answer['weight_version'] : undefined
  if (typeof version !== 'string') throw bad('weight_version in /model_info', { got: typeof version })
  return [version]
}

function readUpdated(answer: unknown): null {
  if (isObject(answer) && answer['success'] === true) return null
  const told = isObject(answer) ? String(answer['message']) : typeof answer
  throw bad('the weights to be read from disk', { told: told.slice(0, 200) })
}
