import { BlockList, isIP } from 'node:net'
import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyVersion } from '../../contracts/policy.types.ts'
import { type Positions, readPositions, spell, spellOverrides } from '../trainer-job/job/rope-statement.ts'
import { shellWord } from '../../platform/run-command.ts'
import { reloadableNames } from './vllm-dialect.ts'

export interface StartCommandInput {
  kind: 'vllm' | 'sglang'
  /** The policy's directory in the server's file system. */
  directory: string
  version: PolicyVersion
  /** Maximum length of prompt and reply together, in tokens. */
  context: number
  /** The trainer's export format. */
  dtype: 'bfloat16' | 'float32'
  publish: 'restart' | 'reload'
  /** The same seed gives the same tokens, whatever the batch. Costs speed. SGLang honours seeds only with it. */
  deterministic: boolean
  port: number
  /** Address to listen on. An address that other machines can reach needs a key. @default 127.0.0.1 */
  host?: string
  /** Name of the variable in the server's environment that holds its key; null means no key. @default null */
  apiKeyVariable?: string | null
  /** vLLM releases its GPU memory while a training job needs it. @default false */
  sleeps?: boolean
  /** Program to run instead of `vllm` or, for SGLang, of `python`. @default null */
  program?: string | null
  /** The operator's own flags, appended to these. @default none */
  more?: readonly string[]
  /** The rope of the policy's config.json in the form of the engines' overrides; null if it has none. @default null */
  overrides?: string | null
}

export interface StartCommand {
  environment: Record<string, string>
  command: string[]
}

/**
 * Builds the command that starts a server so that it samples from the policy's own distribution and reports it. Every flag here
 * prevents a bias; the operator decides about speed, parallelism and memory. Speculative decoding, a quantised cache and logits
 * processors must not be added, because each changes the samples. Flags were verified against the parsers of vLLM 0.33.0 and SGLang
 * 0.5.23.
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
      // Enables the routes that load new weights, which require an isolated port.
      ...(publish === 'reload' ? { VLLM_SERVER_DEV_MODE: '1' } : {}),
    },
    command: [
      program ?? 'vllm',
      'serve',
      directory,
      // Makes a server that was not restarted after an update answer 404 instead of sampling from the old weights.
      '--served-model-name',
      ...(publish === 'reload' ? reloadableNames(version) : [version]),
      // Ignores the model's own top-k, top-p, penalties, stop ids and length cap.
      '--generation-config',
      'vllm',
      // Reports log-probabilities of the distribution that was sampled from. Raw ones would hide a filter.
      '--logprobs-mode',
      'processed_logprobs',
      '--max-model-len',
      String(context),
      // The directory's config.json states the same. Repeated here for an engine that expects another form of it.
      ...(overrides === null ? [] : ['--hf-overrides', overrides]),
      '--dtype',
      dtype,
      '--kv-cache-dtype',
      'auto',
      '--seed',
      '0',
      // Uses an allocator that can release the memory. vLLM refuses this flag without a GPU.
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
    // Reports log-probabilities of the distribution that was sampled from, which is also the current default.
    environment: { SGLANG_RETURN_ORIGINAL_LOGPROB: '0' },
    command: [
      program ?? 'python',
      '-m',
      'sglang.launch_server',
      '--model-path',
      directory,
      // Returned in every answer as proof of which weights produced it.
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

/** Appends further flags of the engine. Refuses a flag that Longhaul sets, because the last value of a repeated flag wins. @throws
 *  LonghaulError `Config.Invalid` */
export function withFurtherFlags({ environment, command }: StartCommand, more: readonly string[]): StartCommand {
  const twice = flagSetTwice(command, more)
  if (twice === null) return { environment, command: [...command, ...more] }
  throw invalid(`Expected further flags of the engine, got ${twice}, which Longhaul sets itself: leave it out`)
}

/** Returns the first of the further flags that the command has already; null if there is none. */
export function flagSetTwice(command: readonly string[], more: readonly string[]): string | null {
  const ours = [...command.map(flagOf), ...SET_ELSEWHERE].filter((flag) => flag !== null)
  const isOurs = (word: string): boolean => {
    const flag = flagOf(word)
    // The engines' parsers accept the beginning of a flag for the flag.
    return flag !== null && flag !== '--' && ours.some((own) => own.startsWith(flag))
  }
  const twice = more.find(isOurs)
  return twice === undefined ? null : twice.replace(/=.*/s, '')
}

/** The policy is a positional argument of vLLM, and the key a variable. */
const SET_ELSEWHERE = ['--model', '--api-key']

/** vLLM takes `_` for `-`. */
function flagOf(word: string): string | null {
  return /^--[\w-]*/.exec(word)?.[0].replaceAll('_', '-') ?? null
}

const LOOPBACK = '127.0.0.1'
const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** A name other than `localhost` may resolve to any address, so it never counts as loopback. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family === 0 ? host === 'localhost' : loopback.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

/** Requires a key for an address that other machines reach. A client there samples at the operator's cost, reads every prompt in the
 *  cache, and changes the weights of a server that reloads. */
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
  // The message omits the value, which may be the key itself.
  if (apiKeyVariable !== null && !/^[A-Za-z_]\w*$/.test(apiKeyVariable)) {
    throw invalid(
      'Expected --api-key-variable to be the name of an environment variable, as LONGHAUL_POLICY_API_KEY, never the key itself',
    )
  }
  if (isLoopback(host)) return
  if (kind === 'vllm' && publish === 'reload') {
    throw invalid(
      `Expected a loopback address with --publish reload, got --host ${host}: vLLM asks for no key at the routes that change its weights. Keep 127.0.0.1 and connect workers through a tunnel or a proxy that authenticates them, or publish by restart`,
    )
  }
  if (apiKeyVariable === null) {
    throw invalid(
      `Expected a key for a server that other machines reach, got --host ${host} alone: add --api-key-variable LONGHAUL_POLICY_API_KEY and set that variable for the server and the workers, or leave --host out for loopback`,
    )
  }
}

/** Reads the key from the environment when the server starts, so that neither this command nor its JSON contains it. An empty key
 *  aborts the start. */
function withKey(
  { kind, apiKeyVariable }: { kind: StartCommandInput['kind']; apiKeyVariable: string },
  command: string[],
): string[] {
  const key = `"\${${apiKeyVariable}:?holds no key}"`
  const script = {
    // Unlike a flag, a variable does not appear in the list of processes.
    vllm: `VLLM_API_KEY=${key}; export VLLM_API_KEY; exec "$@"`,
    sglang: `exec "$@" --api-key ${key}`,
  }[kind]
  return ['sh', '-c', script, 'sh', ...command]
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, details: {} })
}

/**
 * Returns what the policy's config.json says about its positions, for the start command.
 * @param configJson null if the directory cannot be read from this machine
 * @throws LonghaulError `Config.Invalid` for a context longer than the positions: engines refuse it, or answer nonsense there
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

/** @param hint how to fix it
 *  @throws LonghaulError `Config.Invalid` for a name that no run would request */
export function requireVersion(name: string, hint = ''): PolicyVersion {
  if (/^v\d{6}-[0-9a-f]{8}$/.test(name)) return name
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a policy version as v000012-1a2b3c4d, got ${JSON.stringify(name)}${hint}`,
  })
}

/** Formats the command as one shell line. */
export function spellCommand({ environment, command }: StartCommand): string {
  const assigned = Object.entries(environment).map(([name, value]) => `${name}=${shellWord(value)}`)
  return [...assigned, ...command.map(shellWord)].join(' ')
}
