import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef, PolicyVersion } from '../../contracts/policy.types.ts'
import { isObject } from '../../domain/shapes.ts'
import {
  type Dialect,
  type Exchange,
  LOADING,
  type LoadAsk,
  SMALL_ANSWER_MS,
  type Send,
  bad,
  notRestarted,
  reloadOrLeave,
} from './dialect.ts'
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

/**
 * vLLM. Requests were verified against 0.33.0 and a running 0.32.0.
 * Without `reload` the operator restarts the server for each policy and names it after the version (`--served-model-name`), so a server
 * that was not restarted answers 404.
 * With `reload` the server loads new weights in place, which requires its development mode (`VLLM_SERVER_DEV_MODE=1`). Its name cannot
 * change then, so requests name no model. The proof is the label of the weights: every answer carries it from 0.33 on; for older
 * versions it is queried before and after each answer.
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

/** Prefix of the name of a server that reloads. The weights change under that name, so a run that expects restarts must not take it
 *  for a version. */
const STARTED_WITH = 'started-with-'

/** The names of a server that reloads. Requests use none of them. */
export function reloadableNames(version: PolicyVersion): string[] {
  return ['policy', `${STARTED_WITH}${version}`]
}

export function isReloadableName(name: string): boolean {
  return name.startsWith(STARTED_WITH)
}

/** If the server still has the first label, no reload has begun since its start, and its weights are those of its name. */
async function look(send: Send): Promise<{ label: string; version: PolicyVersion }> {
  const [told = ''] = await send(label())
  if (told !== FIRST_LABEL) return { label: told, version: told }
  const name = (await send(served())).find(isReloadableName)
  return { label: told, version: name?.slice(STARTED_WITH.length) ?? told }
}

async function held(send: Send): Promise<PolicyVersion> {
  return (await look(send)).version
}

/**
 * Refuses policies with tied embeddings on a CPU. There vLLM packs the output head when it starts, and again only when a reload brings
 * a tensor for it. A policy with tied embeddings has no such tensor: body and embeddings would be the new policy's and the head the old
 * one's, and the difference would stay below a bf16 canary's tolerance.
 * @throws LonghaulError `Config.Invalid`
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

/** Reads config.json of the directory, which the server sees at the same path. If it cannot be read here, only the canary judges the
 *  reload. */
async function hasTiedEmbeddings({ uri }: PolicyRef): Promise<boolean> {
  try {
    const config: unknown = JSON.parse(await readFile(join(localPath(uri), 'config.json'), 'utf8'))
    return isObject(config) && config['tie_word_embeddings'] === true
  } catch {
    return false
  }
}

/** Returns null if this version does not report its device. Only the canary judges the reload then. */
async function deviceOf(send: Send): Promise<string | null> {
  try {
    return await send({ path: '/server_info?config_format=json', policy: null, parse: readDevice })
  } catch (error) {
    // The server refuses the request because it has no such route.
    if (isLonghaulError(error) && error.code === 'Config.Invalid') return null
    throw error
  }
}

/** A running 0.32.0 names the field `device`; its class also has `device_type`. */
function readDevice(answer: unknown): string | null {
  const config = isObject(answer) ? answer['vllm_config'] : undefined
  const device = isObject(config) ? config['device_config'] : undefined
  const type = isObject(device) ? (device['device_type'] ?? device['device']) : undefined
  return typeof type === 'string' ? type : null
}

/** Prefix of the label of a server that holds no policy. No client requests such a label. */
const ASLEEP = 'asleep-'

function isWithoutWeights(label: string): boolean {
  return label.startsWith(ASLEEP) || label.startsWith(LOADING)
}

/**
 * Clears the label first and sets it last: after a failure in between, the server answers under a name that no client requests, and the
 * next attempt starts over. Pausing empties the prefix cache. Requests in flight are aborted and sampled again.
 * @param mayBeAsleep whether the memory of weights and cache may have been released; vLLM's required order is weights, reload, cache
 */
async function reloadInPlace(
  { policy }: LoadAsk,
  send: Send,
  { mayBeAsleep }: { mayBeAsleep: boolean },
): Promise<void> {
  const { version } = policy
  await send({ path: '/pause?mode=abort&clear_cache=true', body: {}, policy: null, parse: () => null })
  await send(relabel(`${LOADING}${version}`))
  // A server that is awake ignores both calls.
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
  if (now !== version) throw bad('the loaded version to be the requested one', { asked: version, loaded: now ?? '' })
}

/**
 * Releases the memory of weights and cache for a training job on the same GPU. The process, its kernels and its graphs stay. Level 2
 * keeps no copy of the weights on the host, because the next load reads new ones. The label is cleared first, so that a sleeping server
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
