import { ownSettings } from '../engines/engine-command.ts'
import { flagSetTwice, isLoopback } from '../policy-server/start-command.ts'
import { problem, type Settings } from './combination.ts'
import type { KeyPath, RecipeProblem } from './explain-issues.ts'

/** Refuses settings that would start engines without sessions, or engines that an operator would have to stop. */
export function launchedEngines({
  policyServer,
  trainer,
}: Pick<Settings, 'policyServer' | 'trainer'>): RecipeProblem[] {
  const { kind, url, replicas, publish, launch } = policyServer
  if (launch === null) return []
  const at = (...keys: string[]): KeyPath => ['policyServer', ...keys]
  if (kind === 'chat') {
    return [
      problem(at('launch'), 'has no effect with kind: chat', 'remove it: a chat endpoint is started by its owner'),
    ]
  }
  const problems: RecipeProblem[] = []
  if (url !== null || replicas.length > 0) {
    problems.push(
      problem(
        at(url === null ? 'replicas' : 'url'),
        'has no effect beside policyServer.launch',
        'remove it: Longhaul knows the addresses of the engines that it starts; their number is launch.replicas',
      ),
    )
  }
  if (publish === 'manual') {
    problems.push(
      problem(
        at('publish'),
        'expected restart, reload or nothing beside policyServer.launch, got "manual"',
        'remove launch, and an operator starts and restarts the servers at policyServer.url',
      ),
    )
  }
  if (launch.gpus !== null && launch.gpus.length !== launch.replicas) {
    problems.push(
      problem(
        at('launch', 'gpus'),
        `expected an entry for each of the ${launch.replicas} replicas, got ${launch.gpus.length}`,
        'name the GPUs of each replica, as ["0,1", "2,3"]',
      ),
    )
  }
  const lastPort = (launch.port ?? 0) + launch.replicas - 1
  if (lastPort > MAX_PORT) {
    problems.push(
      problem(
        at('launch', 'port'),
        `expected at most ${MAX_PORT - launch.replicas + 1} for ${launch.replicas} replicas, got ${launch.port}`,
        'the ports of the replicas count up from it: name a lower one, or leave it out for free ones',
      ),
    )
  }
  problems.push(...furtherSettings(policyServer, launch))
  if (launch.placement === 'shared' && (trainer.launcher === 'slurm' || trainer.launcher === 'kubernetes')) {
    problems.push(
      problem(
        at('launch', 'placement'),
        `expected separate with trainer.launcher: ${trainer.launcher}, got "shared"`,
        'its jobs run on other machines than the engines, which nothing has to make room for',
      ),
    )
  }
  if (kind === 'vllm' && publish === 'reload' && !isLoopback(launch.host)) {
    problems.push(
      problem(
        at('launch', 'host'),
        `expected a loopback address with publish: reload, got "${launch.host}"`,
        'vLLM asks for no key at the routes that change its weights: keep 127.0.0.1, or publish: restart',
      ),
    )
  }
  return problems
}

const MAX_PORT = 65_535

/** Refuses what would replace a setting of Longhaul's: the last value of a flag or variable wins. */
function furtherSettings(
  policyServer: Settings['policyServer'],
  launch: NonNullable<Settings['policyServer']['launch']>,
): RecipeProblem[] {
  const own = ownSettings(policyServer, launch)
  const problems: RecipeProblem[] = []
  const twice = flagSetTwice(own.command, launch.arguments)
  if (twice !== null) {
    problems.push(
      problem(
        ['policyServer', 'launch', 'arguments'],
        `expected further flags of the engine, got ${twice}, which Longhaul sets itself`,
        'leave it out: policy, address, key, context and decoding follow from other keys of the recipe',
      ),
    )
  }
  for (const name of Object.keys(launch.environment)) {
    const path = ['policyServer', 'launch', 'environment', name]
    if (Object.hasOwn(own.environment, name)) {
      problems.push(problem(path, 'is set by Longhaul itself', 'leave it out: it follows from policyServer.publish'))
    } else if (name === 'CUDA_VISIBLE_DEVICES' && launch.gpus !== null) {
      problems.push(
        problem(path, 'would give every replica the same GPUs', 'leave it out: launch.gpus names those of each'),
      )
    } else if (SECRET.test(name)) {
      problems.push(
        problem(
          path,
          'expected no secret: recipes are stored with their runs',
          `set ${name} for the trainer worker, whose engines inherit it`,
        ),
      )
    }
  }
  return problems
}

const SECRET = /(?:API_KEY|_TOKEN|_SECRET|PASSWORD|SECRET_ACCESS_KEY)$/
