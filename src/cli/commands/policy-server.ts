import { readFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient } from '../../contracts/policy.types.ts'
import type { PolicyServerRecipe } from '../../contracts/recipe.types.ts'
import { explainUnreadable } from '../../platform/input-file.ts'
import type { CommandContext } from '../command-context.ts'
import { examples, integer, jsonOption, port, share } from '../arguments/options.ts'

interface StartOptions {
  kind: 'vllm' | 'sglang'
  name?: string
  context: number
  dtype: 'bfloat16' | 'float32'
  publish: 'restart' | 'reload'
  deterministic: boolean
  port: number
  host: string
  apiKeyVariable?: string
  json?: true
}

interface CheckOptions {
  kind: Exclude<PolicyServerRecipe['kind'], 'chat'>
  url: string
  publish: 'restart' | 'reload'
  tolerance: number
  json?: true
}

export function addPolicyServer(program: Command, context: CommandContext): void {
  const server = program.command('policy-server').description('start commands and self-checks of policy servers')
  addCommand(server, context)
  addCheck(server, context)
  addExplain(server, context)
}

function addCommand(server: Command, { console }: CommandContext): void {
  server
    .command('command')
    .argument('<directory>', 'a policy’s directory, in the server’s file system')
    .description('print the command that starts vLLM or SGLang so that it samples from the policy’s own distribution')
    .addOption(kindOption(['vllm', 'sglang']).makeOptionMandatory())
    .option('--name <version>', 'version of the policy (default: the directory’s name, if that is a version)')
    .requiredOption('--context <tokens>', 'longest prompt and reply together', integer({ name: '--context', min: 1 }))
    .addOption(
      new Option('--dtype <type>', 'number format of the trainer’s exports')
        .choices(['bfloat16', 'float32'])
        .default('bfloat16'),
    )
    .addOption(publishOption())
    .option(
      '--deterministic',
      'sample equal tokens for equal seeds, but slower; runs do not need it, because they never repeat a stored sample',
      false,
    )
    .option('--port <port>', 'port to listen on', port({ min: 1 }), 8000)
    .option('--host <address>', 'address to listen on; any but loopback needs a key', '127.0.0.1')
    .option('--api-key-variable <name>', 'environment variable that holds the server’s key on its machine')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul policy-server command /data/policies/v000012-1a2b3c4d --kind vllm --context 65536',
        'longhaul policy-server command /data/policies/v000012-1a2b3c4d --kind vllm --context 65536 --host 0.0.0.0 --api-key-variable LONGHAUL_POLICY_API_KEY',
      ),
    )
    .action(async (directory: string, { name, json, ...options }: StartOptions) => {
      const { spellCommand, startCommand, startPositions, requireVersion } = await import(
        '../../adapters/policy-server/start-command.ts'
      )
      const version = requireVersion(name ?? basename(resolve(directory)), ': name it with --name')
      const configJson = await readConfig(directory)
      if (configJson === null) {
        console.err(
          `${directory} has no config.json on this machine: its positions and its rope are not looked at here`,
        )
      }
      const { overrides } = startPositions({ configJson, directory, context: options.context })
      const start = startCommand({ ...options, directory, version, overrides })
      if (json === true) console.record(start)
      else console.out(spellCommand(start))
    })
}

/** Null if the directory is on another machine. */
async function readConfig(directory: string): Promise<string | null> {
  try {
    return await readFile(join(directory, 'config.json'), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw explainUnreadable({ path: directory, what: 'a policy’s directory with config.json' }, error)
  }
}

/** A run waits for a server that restarts; the operator of this command can restart it. */
const UNREACHABLE_MS = 10_000

function addCheck(server: Command, { console }: CommandContext): void {
  server
    .command('check')
    .argument('<version>', 'the policy that the server serves')
    .description(
      'sample and score, and check that filters, temperature and log-probabilities are those that training needs',
    )
    .addOption(kindOption(['embedded', 'vllm', 'sglang']).makeOptionMandatory())
    .requiredOption('--url <address>', 'address of the server')
    .addOption(publishOption())
    .option(
      '--tolerance <nats>',
      'median difference that rounding explains: 0.001 in float32, 0.02 in bfloat16',
      share,
      0.02,
    )
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul policy-server check v000012-1a2b3c4d --kind vllm --url http://gpu-1:8000'))
    .action(async (policy: string, { kind, url, publish, tolerance, json }: CheckOptions) => {
      const { connectToOneServer } = await import('../../workers/connect.ts')
      const { selfCheck } = await import('../../adapters/policy-server/self-check.ts')
      const { requireVersion } = await import('../../adapters/policy-server/start-command.ts')
      requireVersion(policy)
      const client = connectToOneServer({ kind, url, publish, timeouts: { giveUpAfterMs: UNREACHABLE_MS } })
      const signal = AbortSignal.timeout(600_000)
      const figures = await selfCheck({ client, policy, tolerance, signal }).catch(async (error: unknown) => {
        throw await withRemedy(error, { client, policy, kind, url, publish })
      })
      if (json === true) console.record({ policy, url, ...figures })
      else
        console.out(
          `${url} samples ${policy} as it says: ${figures.tokens} tokens, median difference ${figures.medianDifference.toPrecision(2)}, mean excess ${figures.meanExcess.toPrecision(2)}`,
        )
    })
}

const NAME_FLAGS = { vllm: '--served-model-name', sglang: '--weight-version' } as const

/** A run waits until the policy is served; the operator of this command chooses between another start and another version. */
async function withRemedy(
  refusal: unknown,
  {
    client,
    policy,
    kind,
    url,
    publish,
  }: { client: PolicyClient; policy: string } & Pick<CheckOptions, 'kind' | 'url' | 'publish'>,
): Promise<unknown> {
  if (!isLonghaulError(refusal) || refusal.code !== 'Model.NotServed') return refusal
  const served = await client.served(AbortSignal.timeout(UNREACHABLE_MS)).catch(() => [])
  const names = served.map((name) => JSON.stringify(name)).join(', ')
  const { isReloadableName } = await import('../../adapters/policy-server/vllm-dialect.ts')
  const other = served.find((name) => /^v\d{6}-[0-9a-f]{8}$/.test(name))
  const restart =
    kind === 'embedded'
      ? `a run loads its policies by itself, so check it while a run that uses ${policy} is under way`
      : `restart the server on the policy’s directory with ${NAME_FLAGS[kind]} ${policy} (longhaul policy-server command DIRECTORY --kind ${kind} prints all flags)`
  return new LonghaulError({
    code: 'Model.NotServed',
    message: [
      `Expected ${url} to serve ${policy}, but it serves ${names === '' ? 'no policy' : names}`,
      `: ${restart}`,
      ...(publish === 'restart' && served.some(isReloadableName)
        ? [', or add --publish reload: it was started to read new weights itself']
        : []),
      ...(other === undefined ? [] : [`, or check what it serves: longhaul policy-server check ${other}`]),
    ].join(''),
    cause: refusal,
  })
}

function addExplain(server: Command, { console }: CommandContext): void {
  server
    .command('explain')
    .argument('<log>', 'file that holds what the engine printed')
    .description('explain why vLLM or SGLang did not start, and what to do')
    .addHelpText('after', examples('longhaul policy-server explain vllm.log'))
    .action(async (path: string) => {
      const { explainStart } = await import('../../adapters/policy-server/start-failures.ts')
      const log = await readLog(path)
      const why = explainStart({ log })
      if (why !== null) return console.out(why)
      throw new LonghaulError({
        code: 'Config.Invalid',
        message: `Expected a reason that Longhaul knows in ${path}: look for its first line with "Error"`,
      })
    })
}

/** An engine that fails writes little; of a longer log, only the end is read. */
const MOST_LOG_BYTES = 16 * 1024 * 1024

async function readLog(path: string): Promise<string> {
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) => {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected a file that can be read at ${path} (${cause.code ?? cause.message}): start the engine with > vllm.log 2>&1`,
      cause,
    })
  })
  return bytes.subarray(-MOST_LOG_BYTES).toString('utf8')
}

function kindOption(kinds: string[]): Option {
  return new Option('--kind <kind>', 'which server').choices(kinds)
}

function publishOption(): Option {
  return new Option('--publish <how>', 'how the server gets new weights')
    .choices(['restart', 'reload'])
    .default('restart')
}
