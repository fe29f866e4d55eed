import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyVersion } from '../../contracts/policy.types.ts'
import { type Positions, readPositions, spell, spellOverrides } from '../trainer-job/rope-statement.ts'

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
  /** Same seed, same tokens, whatever else is in the batch. Costs speed; SGLang heeds seeds only so. */
  deterministic: boolean
  port: number
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
  return input.kind === 'vllm' ? startVllm(input) : startSglang(input)
}

function startVllm({
  directory,
  version,
  context,
  dtype,
  publish,
  deterministic,
  port,
  overrides = null,
}: StartCommandInput): StartCommand {
  return {
    environment: {
      ...(deterministic ? { VLLM_BATCH_INVARIANT: '1' } : {}),
      // Opens the routes that read new weights; they are for an isolated port only.
      ...(publish === 'reload' ? { VLLM_SERVER_DEV_MODE: '1' } : {}),
    },
    command: [
      'vllm',
      'serve',
      directory,
      // A server that was not restarted after an update answers 404 instead of sampling from the old weights.
      '--served-model-name',
      publish === 'reload' ? 'policy' : version,
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
      '--host',
      hostFor(publish),
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
  publish,
  deterministic,
  port,
  overrides = null,
}: StartCommandInput): StartCommand {
  return {
    // Log-probabilities of the distribution that was sampled from, which is the default of today.
    environment: { SGLANG_RETURN_ORIGINAL_LOGPROB: '0' },
    command: [
      'python',
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
      hostFor(publish),
      '--port',
      String(port),
    ],
  }
}

/** Whoever reaches a server that reloads can change its weights. */
function hostFor(publish: StartCommandInput['publish']): string {
  return publish === 'reload' ? '127.0.0.1' : '0.0.0.0'
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

/** @throws LonghaulError `Config.Invalid` for a name that no run would ask for */
export function requireVersion(name: string): PolicyVersion {
  if (/^v\d{6}-[0-9a-f]{8}$/.test(name)) return name
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a policy version as v000012-1a2b3c4d, got ${JSON.stringify(name)}: name it with --name`,
  })
}

/** One line for a shell. */
export function spellCommand({ environment, command }: StartCommand): string {
  const assigned = Object.entries(environment).map(([name, value]) => `${name}=${quote(value)}`)
  return [...assigned, ...command.map(quote)].join(' ')
}

function quote(word: string): string {
  return /^[\w./:=@,+-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}
