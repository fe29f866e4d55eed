import { BlockList, isIP } from 'node:net'
import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyVersion } from '../../contracts/policy.types.ts'
import { type Positions, readPositions, spell, spellOverrides } from '../trainer-job/job/rope-statement.ts'
import { shellWord } from '../../platform/shell-quote.ts'
import { reloadableNames } from './vllm-dialect.ts'

export interface StartCommandInput {
  kind: 'vllm' | 'sglang'
  /** A policy's directory in the server's file system. */
  directory: string
  version: PolicyVersion
  /** Longest prompt and reply together, in tokens. */
  context: number
  /** What the trainer exports. */
  dtype: 'bfloat16' | 'float32'
  publish: 'restart' | 'reload'
  /** Same seed, same tokens, independent of the batch. Costs speed; SGLang honours seeds only with it. */
  deterministic: boolean
  port: number
  /** Address to listen on. One that other machines reach needs a key. @default 127.0.0.1 */
  host?: string
  /** Name of the variable, in the environment of the server, that holds its key; null = no key. @default null */
  apiKeyVariable?: string | null
  /** vLLM gives its GPU's memory away while a training job needs it. @default false */
  sleeps?: boolean
  /** What is run instead of `vllm` or, for SGLang, of `python`. @default null */
  program?: string | null
  /** The operator's own flags, after these. @default none */
  more?: readonly string[]
  /** The rope of the policy's config.json as the engines' overrides take it; null = it states none. @default null */
  overrides?: string | null
}

export interface StartCommand {
  environment: Record<string, string>
  command: string[]
}

/**
 * How a server is started so that it samples from the policy's own distribution and says so. Every flag here keeps a bias out;
 * speed, parallelism and memory are the operator's. No speculative decoding, quantised cache or logits processor belongs beside
 * them: each changes what is sampled. Flags were held against the parsers of vLLM 0.33.0 and SGLang 0.5.23.
 */
export function startCommand(input: StartCommandInput): StartCommand {
  const { kind, publish, host = LOOPBACK, apiKeyVariable = null } = input
  requireGuardedHost({ kind, publish, host, apiKeyVariable })
  const start = withFurtherFlags(kind === 'vllm' ? startVllm(input) : startSglang(input), input.more ?? [])
  return apiKeyVariable === null ? start : { ...start, command: withKey({ kind, apiKeyVariable }, start.command) }
}

function startVllm({
  directory,
  version,
  context,
  dtype,
  publish,
  deterministic,
  port,
  host = LOOPBACK,
  program = null,
  overrides = null,
  sleeps = false,
}: StartCommandInput): StartCommand {
  return {
    environment: {
      ...(deterministic ? { VLLM_BATCH_INVARIANT: '1' } : {}),
      // Opens the routes that read new weights; they are for an isolated port only.
      ...(publish === 'reload' ? { VLLM_SERVER_DEV_MODE: '1' } : {}),
    },
    command: [
      program ?? 'vllm',
      'serve',
      directory,
      // A server that was not restarted after an update answers 404 instead of sampling from the old weights.
      '--served-model-name',
      ...(publish === 'reload' ? reloadableNames(version) : [version]),
      // The model's own top-k, top-p, penalties, stop ids and length cap stay out.
      '--generation-config',
      'vllm',
      // Of the distribution that was sampled from: with raw ones a filter could not be seen.
      '--logprobs-mode',
      'processed_logprobs',
      '--max-model-len',
      String(context),
      // The directory's config.json says the same; said here too, an engine that reads another form of it still has the rope.
      ...(overrides === null ? [] : ['--hf-overrides', overrides]),
      '--dtype',
      dtype,
      '--kv-cache-dtype',
      'auto',
      '--seed',
      '0',
      // Its memory comes from an allocator that can give it back; refused without a GPU.
      ...(sleeps ? ['--enable-sleep-mode'] : []),
      '--host',
      host,
      '--port',
      String(port),
    ],
  }
}

function startSglang({
  directory,
  version,
  context,
  dtype,
  deterministic,
  port,
  host = LOOPBACK,
  program = null,
  overrides = null,
}: StartCommandInput): StartCommand {
  return {
    // Log-probabilities of the distribution that was sampled from, which is the default of today.
    environment: { SGLANG_RETURN_ORIGINAL_LOGPROB: '0' },
    command: [
      program ?? 'python',
      '-m',
      'sglang.launch_server',
      '--model-path',
      directory,
      // Stands in every answer: the proof of which weights gave it.
      '--weight-version',
      version,
      // The default, `model`, takes top-k, top-p and penalties from the model's directory.
      '--sampling-defaults',
      'openai',
      '--context-length',
      String(context),
      ...(overrides === null ? [] : ['--json-model-override-args', overrides]),
      '--dtype',
      dtype,
      '--kv-cache-dtype',
      'auto',
      '--random-seed',
      '0',
      ...(deterministic ? ['--enable-deterministic-inference', '--sampling-backend', 'pytorch'] : []),
      '--host',
      host,
      '--port',
      String(port),
    ],
  }
}

/** A flag that is said twice holds with its last value. @throws LonghaulError `Config.Invalid` */
export function withFurtherFlags({ environment, command }: StartCommand, more: readonly string[]): StartCommand {
  const flagOf = (word: string): string | undefined => /^--[\w-]+/.exec(word)?.[0]
  const ours = new Set(command.map(flagOf))
  const twice = more.map(flagOf).find((flag) => flag !== undefined && ours.has(flag))
  if (twice === undefined) return { environment, command: [...command, ...more] }
  throw invalid(`Expected further flags of the engine, got ${twice}, which Longhaul sets itself: leave it out`)
}

const LOOPBACK = '127.0.0.1'
const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** A name other than `localhost` may lead to any address, so it is never taken for loopback. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family === 0 ? host === 'localhost' : loopback.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

/** A client that reaches a server samples at the operator's cost, reads every prompt's cache, and changes the weights of one that reloads. */
function requireGuardedHost({
  kind,
  publish,
  host,
  apiKeyVariable,
}: Required<Pick<StartCommandInput, 'kind' | 'publish' | 'host' | 'apiKeyVariable'>>): void {
  // An empty host means all interfaces to both engines.
  if (!/^[\w.:][\w.:-]*$/.test(host)) {
    throw invalid(`Expected --host to be an address or a name, got ${JSON.stringify(host)}: leave it out for loopback`)
  }
  // Not repeated in the message: it may be the key itself.
  if (apiKeyVariable !== null && !/^[A-Za-z_]\w*$/.test(apiKeyVariable)) {
    throw invalid(
      'Expected --api-key-variable to be the name of an environment variable, as LONGHAUL_POLICY_API_KEY, never the key itself',
    )
  }
  if (isLoopback(host)) return
  if (kind === 'vllm' && publish === 'reload') {
    throw invalid(
      `Expected a loopback address with --publish reload, got --host ${host}: vLLM asks for no key at the routes that change its weights. Keep 127.0.0.1 and lead workers there by a tunnel or a proxy that authenticates them, or publish by restart`,
    )
  }
  if (apiKeyVariable === null) {
    throw invalid(
      `Expected a key for a server that other machines reach, got --host ${host} alone: add --api-key-variable LONGHAUL_POLICY_API_KEY and set that variable for the server and the workers, or leave --host out for loopback`,
    )
  }
}

/** The key is taken from the environment when the server starts, so that neither this command nor its JSON holds it; an empty one ends the start. */
function withKey(
  { kind, apiKeyVariable }: { kind: StartCommandInput['kind']; apiKeyVariable: string },
  command: string[],
): string[] {
  const key = `"\${${apiKeyVariable}:?holds no key}"`
  const script = {
    // Unlike a flag a variable stays out of the list of processes.
    vllm: `VLLM_API_KEY=${key}; export VLLM_API_KEY; exec "$@"`,
    sglang: `exec "$@" --api-key ${key}`,
  }[kind]
  return ['sh', '-c', script, 'sh', ...command]
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, details: {} })
}

/**
 * What the policy's own config.json says about its positions, for the start command.
 * @param configJson null where the directory cannot be read from here
 * @throws LonghaulError `Config.Invalid` for a context that the positions do not reach: engines refuse it, or answer nonsense there
 */
export function startPositions({
  configJson,
  directory,
  context,
}: {
  configJson: string | null
  directory: string
  context: number
}): { overrides: string | null } {
  if (configJson === null) return { overrides: null }
  const { rope, window } = parsePositions(configJson, directory)
  if (window !== null && context > window) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected --context to be at most the policy’s ${window} positions${rope === null ? '' : ` (${spell(rope)})`}, got ${context}: shorten it, or state model.rope in the recipe, which makes another base policy`,
      details: { directory },
    })
  }
  return { overrides: spellOverrides(configJson) }
}

function parsePositions(configJson: string, directory: string): Positions {
  try {
    return readPositions(configJson)
  } catch (cause) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected config.json of the policy to be JSON',
      details: { directory },
      cause,
    })
  }
}

/** @param hint what to do about it
 *  @throws LonghaulError `Config.Invalid` for a name that no run would ask for */
export function requireVersion(name: string, hint = ''): PolicyVersion {
  if (/^v\d{6}-[0-9a-f]{8}$/.test(name)) return name
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a policy version as v000012-1a2b3c4d, got ${JSON.stringify(name)}${hint}`,
  })
}

/** One line for a shell. */
export function spellCommand({ environment, command }: StartCommand): string {
  const assigned = Object.entries(environment).map(([name, value]) => `${name}=${shellWord(value)}`)
  return [...assigned, ...command.map(shellWord)].join(' ')
}
