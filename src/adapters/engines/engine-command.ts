import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { EngineLaunchRecipe, Recipe } from '../../contracts/recipe.types.ts'
import {
  isLoopback,
  type StartCommand,
  startCommand,
  startPositions,
  withFurtherFlags,
} from '../policy-server/start-command.ts'

export interface EngineCommandInput {
  recipe: Pick<Recipe, 'policyServer' | 'trainer' | 'rft' | 'reinforce' | 'evaluate'>
  launch: EngineLaunchRecipe
  /** Its paths are those of this host. */
  policy: PolicyRef
  publish: 'restart' | 'reload'
  index: number
  url: string
  /** For the embedded server: the program that runs it, and the file that records what it serves. */
  embedded: { python: string; env: Record<string, string>; state: string }
  /** Whether the worker has a key for the engines, in `KEY_VARIABLE`. */
  hasKey: boolean
}

/**
 * Returns whether engines that share a GPU with training jobs sleep during them. Only a vLLM that loads new weights in place can sleep;
 * other engines are stopped and started again. A trainer on the CPU does not need the engine's GPU.
 */
export function sleepsThroughTraining(
  { policyServer: { kind, launch }, trainer }: Pick<Recipe, 'policyServer' | 'trainer'>,
  publish: 'restart' | 'reload',
): boolean {
  return kind === 'vllm' && publish === 'reload' && launch?.placement === 'shared' && trainer.device === 'cuda'
}

const KEY_VARIABLE = 'LONGHAUL_POLICY_API_KEY'

/**
 * Builds the start command of a replica: the one that `longhaul policy-server command` prints, with the recipe's own flags and
 * variables.
 * @throws LonghaulError `Config.Invalid`
 */
export async function engineCommand(input: EngineCommandInput): Promise<StartCommand> {
  const { launch, index } = input
  const { kind } = input.recipe.policyServer
  const { environment, command } =
    kind === 'vllm' || kind === 'sglang' ? await startOfEngine(kind, input) : startOfEmbedded(input)
  const gpus = launch.gpus?.[index]
  return {
    environment: {
      ...environment,
      ...(gpus === undefined ? {} : { CUDA_VISIBLE_DEVICES: gpus }),
      ...launch.environment,
    },
    command,
  }
}

async function startOfEngine(
  kind: 'vllm' | 'sglang',
  { recipe, launch, policy, publish, url, hasKey }: EngineCommandInput,
): Promise<StartCommand> {
  const directory = fileURLToPath(policy.uri)
  const context = longestContext(recipe)
  const { overrides } = startPositions({
    configJson: await readFile(join(directory, 'config.json'), 'utf8').catch(() => null),
    directory,
    context,
  })
  return inTheRecipe(() =>
    startCommand({
      kind,
      directory,
      version: policy.version,
      context,
      dtype: recipe.trainer.exportDtype,
      publish,
      deterministic: false,
      sleeps: sleepsThroughTraining(recipe, publish),
      port: portOf(url),
      host: launch.host,
      apiKeyVariable: hasKey ? KEY_VARIABLE : null,
      program: launch.program,
      more: launch.arguments,
      overrides,
    }),
  )
}

/** Flags and variables that the start command of an engine has before the recipe's own ones, whatever the policy. */
export function ownSettings(
  { kind, publish }: Pick<Recipe['policyServer'], 'kind' | 'publish'>,
  launch: EngineLaunchRecipe,
): StartCommand {
  if (kind !== 'vllm' && kind !== 'sglang') {
    const embedded = { python: 'python', env: {}, state: '/state' }
    return startOfEmbedded({ launch: { ...launch, arguments: [] }, url: 'http://127.0.0.1:1', embedded, hasKey: true })
  }
  return startCommand({
    kind,
    directory: '/policy',
    version: 'v000000-00000000',
    context: 1,
    dtype: 'bfloat16',
    publish: publish === 'restart' ? 'restart' : 'reload',
    deterministic: false,
    sleeps: true,
    port: 1,
    overrides: '{}',
  })
}

/** Weights arrive by a request, and the server records them, so a restarted process serves what the previous one did. */
function startOfEmbedded({
  launch,
  url,
  embedded,
  hasKey,
}: Pick<EngineCommandInput, 'launch' | 'url' | 'embedded' | 'hasKey'>): StartCommand {
  if (!isLoopback(launch.host) && !hasKey) {
    throw invalid(`expected a key for engines at ${launch.host}: set ${KEY_VARIABLE} for every worker`)
  }
  const command = [launch.program ?? embedded.python, '-m', 'longhaul_trainer', 'serve', '--host', launch.host]
  command.push('--port', String(portOf(url)), '--state', embedded.state)
  if (hasKey) command.push('--api-key-variable', KEY_VARIABLE)
  return inTheRecipe(() => withFurtherFlags({ environment: embedded.env, command }, launch.arguments))
}

/** Adapts an error to the recipe: the command names its own options, which are recipe keys here. */
function inTheRecipe(start: () => StartCommand): StartCommand {
  try {
    return start()
  } catch (error) {
    if (!isLonghaulError(error)) throw error
    throw invalid(
      `${error.message} (of the recipe: host, arguments; the key is ${KEY_VARIABLE} of every worker)`,
      error,
    )
  }
}

function invalid(message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message: `policyServer.launch: ${message}`, cause })
}

function longestContext({ rft, reinforce, evaluate }: EngineCommandInput['recipe']): number {
  return Math.max(
    rft?.context ?? 0,
    ...(reinforce?.stages ?? []).map(({ context }) => context),
    // Recipes stored by an older version have no limits.
    ...Object.values(evaluate.limits ?? {}).map(({ context }) => context),
    evaluate.context,
  )
}

function portOf(url: string): number {
  return Number(new URL(url).port)
}
