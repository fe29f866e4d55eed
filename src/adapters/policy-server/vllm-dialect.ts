import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef, PolicyVersion } from '../../contracts/policy.types.ts'
import { bad, isObject } from './reply.ts'
import {
  completionBody,
  completionsDialect,
  FIRST_LABEL,
  readCompletion,
  readPromptLogprobs,
  scoringBody,
  served,
  localPath,
} from './completions-dialect.ts'
import {
  type Dialect,
  type Exchange,
  LOADING,
  type LoadAsk,
  notRestarted,
  reloadOrLeave,
  type Send,
  SMALL_ANSWER_MS,
} from './dialect.ts'

/**
 * vLLM, whose requests were held against 0.33.0 and against a running 0.32.0.
 * Restarted for each policy, its name is the version (`--served-model-name`): a server that was not restarted answers 404.
 * With `reload` it reads new weights in place, which its development mode allows (`VLLM_SERVER_DEV_MODE=1`). Its name cannot
 * change then, so requests name none, and the label of the weights is the proof: in every answer from 0.33 on, asked before and
 * after it below.
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
    sample: (request, witnessed) => ({
      ...byName.sample(request),
      body: unnamed(completionBody(request)),
      parse: (answer) => readCompletion({ answer, request, proof: witnessed ?? 'label' }),
    }),
    tokenize: (request) => {
      const exchange = byName.tokenize(request)
      return { ...exchange, body: unnamed(exchange.body ?? {}) }
    },
    score: ({ policy, ids }, witnessed) => ({
      ...byName.score({ policy, ids }),
      body: unnamed(scoringBody({ policy, ids, maxTokens: 1 })),
      parse: (answer) => readPromptLogprobs({ answer, ids, policy, proof: witnessed ?? 'label' }),
    }),
    served: label,
    held,
    load: (ask, send) =>
      reloadOrLeave({
        kind: 'vllm',
        look: () => look(send),
        async reload({ version }) {
          if (version === ask.policy.version) return void (await send(goOn()))
          await requireReloadable(ask, send)
          await reloadInPlace(ask, send, { mayBeAsleep: isWithoutWeights(version) })
        },
        async takeBack({ label: before }) {
          if (isWithoutWeights(before)) return
          await send(relabel(before))
          await send(goOn())
        },
      }),
  }
}

function label(): Exchange<PolicyVersion[]> {
  return { path: '/weight_info', policy: null, timeoutMs: SMALL_ANSWER_MS, parse: readLabel }
}

/** A name of its own: the weights change under it, so a run whose servers are restarted must not take it for a version. */
const STARTED_WITH = 'started-with-'

/** What a server that reloads is called: requests name none of them. */
export function reloadableNames(version: PolicyVersion): string[] {
  return ['policy', `${STARTED_WITH}${version}`]
}

/** No reload has begun since the start of a server with the first label: its weights are those of its name. */
async function look(send: Send): Promise<{ label: string; version: PolicyVersion }> {
  const [told = ''] = await send(label())
  if (told !== FIRST_LABEL) return { label: told, version: told }
  const name = (await send(served())).find((one) => one.startsWith(STARTED_WITH))
  return { label: told, version: name?.slice(STARTED_WITH.length) ?? told }
}

async function held(send: Send): Promise<PolicyVersion> {
  return (await look(send)).version
}

/**
 * On a CPU vLLM packs the output head when it starts, and packs it again only when a reload brings a tensor for it. A policy with
 * tied embeddings has none: body and embeddings would be the new policy's and the head the old one's, by less than a bf16
 * canary's tolerance. @throws LonghaulError `Config.Invalid`
 */
async function requireReloadable({ policy }: LoadAsk, send: Send): Promise<void> {
  if (!(await hasTiedEmbeddings(policy))) return
  if ((await deviceOf(send)) !== 'cpu') return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message:
      'Expected a policy with an output head of its own where vLLM on a CPU reloads it: with tied embeddings (tie_word_embeddings ' +
      'in config.json) it would keep the old head. Publish by restart (policyServer.publish: restart)',
    details: { policy: policy.version, directory: policy.uri },
  })
}

/** The server reads the same directory at the same path. One that cannot be read from here is judged by its canary alone. */
async function hasTiedEmbeddings({ uri }: PolicyRef): Promise<boolean> {
  try {
    const config: unknown = JSON.parse(await readFile(join(localPath(uri), 'config.json'), 'utf8'))
    return isObject(config) && config['tie_word_embeddings'] === true
  } catch {
    return false
  }
}

/** Null where this version does not say it: its canary alone judges the reload then. */
async function deviceOf(send: Send): Promise<string | null> {
  try {
    return await send({ path: '/server_info?config_format=json', policy: null, parse: readDevice })
  } catch (error) {
    // The server refuses the request: it has no such route.
    if (isLonghaulError(error) && error.code === 'Config.Invalid') return null
    throw error
  }
}

/** A running 0.32.0 names it `device`; its class has `device_type` besides. */
function readDevice(answer: unknown): string | null {
  const config = isObject(answer) ? answer['vllm_config'] : undefined
  const device = isObject(config) ? config['device_config'] : undefined
  const type = isObject(device) ? (device['device_type'] ?? device['device']) : undefined
  return typeof type === 'string' ? type : null
}

/** Labels of a server that holds no policy: no client requests them. */
const ASLEEP = 'asleep-'

function isWithoutWeights(label: string): boolean {
  return label.startsWith(ASLEEP) || label.startsWith(LOADING)
}

/**
 * The label is cleared first and set last: after a failure in between the server answers under a name that no client requests,
 * and the next attempt starts over. Pausing empties the prefix cache; requests in flight are aborted and sampled again.
 * @param mayBeAsleep the memory of weights and cache may be given away: vLLM's own order is weights, reload, cache
 */
async function reloadInPlace(
  { policy }: LoadAsk,
  send: Send,
  { mayBeAsleep }: { mayBeAsleep: boolean },
): Promise<void> {
  const { version } = policy
  await send({ path: '/pause?mode=abort&clear_cache=true', body: {}, policy: null, parse: () => null })
  await send(relabel(`${LOADING}${version}`))
  // A server that is awake ignores both.
  if (mayBeAsleep) await send(wake('?tags=weights'))
  await send({
    path: '/collective_rpc',
    body: { method: 'reload_weights', kwargs: { weights_path: localPath(policy.uri) } },
    policy: null,
    parse: () => null,
  })
  if (mayBeAsleep) await send(wake(''))
  await send(relabel(version))
  await send(goOn())
  const [now] = await send(label())
  if (now !== version) throw bad('the loaded version to be the asked one', { asked: version, loaded: now ?? '' })
}

/**
 * Gives the memory of weights and cache away, for a training job on the same GPU; the process, its kernels and its graphs stay. Level 2
 * keeps no copy of the weights on the host: the next load reads others anyway. The label goes first, so that a server that was asleep
 * never counts as one that holds a policy.
 */
export async function sleepUntilLoad(send: Send): Promise<void> {
  await send(relabel(`${ASLEEP}until-a-load`))
  await send({ path: '/sleep?level=2', body: {}, policy: null, parse: () => null })
  const isAsleep = await send({ path: '/is_sleeping', policy: null, timeoutMs: SMALL_ANSWER_MS, parse: readIsSleeping })
  if (!isAsleep) throw bad('the server to be asleep', {})
}

function readIsSleeping(answer: unknown): boolean {
  const found = isObject(answer) ? answer['is_sleeping'] : undefined
  if (typeof found !== 'boolean') throw bad('is_sleeping in /is_sleeping', { got: typeof found })
  return found
}

function wake(query: string): Exchange<null> {
  return { path: `/wake_up${query}`, body: {}, policy: null, parse: () => null }
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
