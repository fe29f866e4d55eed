import { delimiter, join, resolve } from 'node:path'
import { hostname } from 'node:os'

import { programPath } from '../platform/run-command.ts'
import { packageFile } from './paths.ts'

/**
 * Every environment variable that the stack gives to its processes, in one place. Users set the left ones to change what
 * `longhaul up` does; workers read the right ones (`src/workers/worker-environment.ts`).
 *
 * | a user sets | to |
 * |---|---|
 * | LONGHAUL_STACK | name of the stack, several run side by side (`default`) |
 * | LONGHAUL_HOME | where stacks keep data (`$XDG_DATA_HOME/longhaul`) |
 * | LONGHAUL_CACHE | what can be made again (`$XDG_CACHE_HOME/longhaul`) |
 * | LONGHAUL_WEIGHTS | where policies and checkpoints of a bucket are brought to (`weights` in the cache) |
 * | LONGHAUL_WEIGHTS_GIB | how much of them stays there, beside what is in use (200) |
 * | TEMPORAL_ADDRESS or TEMPORAL_PROFILE, LONGHAUL_NAMESPACE | use a server that runs already (`src/platform/temporal-settings.ts`) |
 * | LONGHAUL_CODEC_KEYS | file of keys that payloads are encrypted with (`src/platform/payload-codec.ts`) |
 * | TEMPORAL_CLI_PATH | a Temporal CLI to start the server with |
 * | DOCKER_HOST | use this engine and no other |
 * | LONGHAUL_POLICY_URL | use a policy server that runs already |
 * | LONGHAUL_ARTIFACTS | directory of the artifact store, or s3://bucket/prefix (a directory below the stack's data) |
 * | LONGHAUL_STORE_PATIENCE_S | seconds that an activity waits for a store that is away or full (3600) |
 * | LONGHAUL_BASE_PYTHON | the Python to make the trainer's environment with |
 * | LONGHAUL_WANDB_PYTHON | the Python with the package wandb, where a recipe's trackers name it |
 * | LONGHAUL_HUB_URL | another hub of data sets, of the public one's layout |
 * | LONGHAUL_RECIPES | directories with more recipes, separated by ":" |
 * | LONGHAUL_MIN_FREE_GIB | below this much free disk at the engine, images longest unused are removed (10) |
 * | LONGHAUL_SANDBOX_CPUS, LONGHAUL_SANDBOX_MEMORY_GIB | what sandboxes may ask for together (all the machine has) |
 * | LONGHAUL_SANDBOXES | `pods`: sandboxes of agents are pods of the cluster that KUBECONFIG names (`docs/cluster.md`) |
 * | LONGHAUL_KUBERNETES_NAMESPACE, LONGHAUL_KUBERNETES_SECCOMP | where these pods are, and where nodes keep the runner's profile |
 * | LONGHAUL_LEASE_S | seconds that a sandbox, or a launched engine, lives without a sign of life (600) |
 * | LONGHAUL_METRICS_ADDRESS or LONGHAUL_METRICS_OTLP | where workers show or send metrics (`src/workers/metrics.ts`); the roles take ports from it upwards |
 *
 * | a process of the stack gets | meaning |
 * |---|---|
 * | LONGHAUL_TEMPORAL_ADDRESS, LONGHAUL_NAMESPACE | the server and its namespace |
 * | LONGHAUL_UI_URL | Temporal UI, empty where the server is not ours |
 * | LONGHAUL_ARTIFACTS | directory of the artifact store, or s3://bucket/prefix |
 * | LONGHAUL_POLICY_URL | policy server |
 * | LONGHAUL_PYTHON, PYTHONPATH | interpreter with the trainer's packages, and the trainer |
 * | LONGHAUL_BUNDLE | prebuilt workflow bundle |
 * | LONGHAUL_BASE_IMAGE | tag of the sandbox base image |
 * | LONGHAUL_HOST_ID | name of this machine as a sandbox host; differs by stack, so that one stack's reaper spares the others |
 * | LONGHAUL_ENGINES | directory of the policy engines that its trainer worker launches |
 * | DOCKER_HOST | the engine |
 */
export interface StackFacts {
  name: string
  cacheDir: string
  dataDir: string
  /** Or `s3://bucket/prefix`. */
  artifactsDir: string
  temporalAddress: string
  namespace: string
  /** For people: where the server keeps its runs. Absent where the server is not ours, and in stacks of earlier versions. */
  temporalStore?: string
  /** Null where the server is not ours. */
  uiUrl: string | null
  policyUrl: string
  /** Null where no engine was asked for. */
  dockerHost: string | null
  python: string | null
  bundle: string | null
  baseImage: string | null
  /** Where `longhaul view` serves unless told otherwise; absent in stacks of earlier versions. */
  viewerUrl?: string
  /** Path of the file with the keys of payloads; null or absent where they are not encrypted. */
  codecKeys?: string | null
}

/** What a process needs to talk to the stack, as variables; on top of the caller's own environment. */
export function stackEnvironment(facts: StackFacts): Record<string, string> {
  return {
    LONGHAUL_STACK: facts.name,
    // `<home>/stacks/<name>` is the data directory.
    LONGHAUL_HOME: join(facts.dataDir, '..', '..'),
    LONGHAUL_CACHE: facts.cacheDir,
    // A stack changes its code by `down` and `up`: with a build, its workers would wait until a person promotes that.
    LONGHAUL_BUILD_ID: '',
    // One address for several processes; the stack's supervisor sees its processes itself.
    LONGHAUL_HEALTH_ADDRESS: '',
    LONGHAUL_ARTIFACTS: facts.artifactsDir,
    LONGHAUL_TEMPORAL_ADDRESS: facts.temporalAddress,
    LONGHAUL_NAMESPACE: facts.namespace,
    LONGHAUL_UI_URL: facts.uiUrl ?? '',
    LONGHAUL_POLICY_URL: facts.policyUrl,
    ...(facts.viewerUrl === undefined ? {} : { LONGHAUL_VIEWER_URL: facts.viewerUrl }),
    LONGHAUL_HOST_ID: stackHostId(facts.name),
    LONGHAUL_ENGINES: enginesDir(facts.dataDir),
    ...(facts.dockerHost === null ? {} : { DOCKER_HOST: facts.dockerHost }),
    ...(facts.python === null ? {} : { LONGHAUL_PYTHON: facts.python }),
    ...(typeof facts.codecKeys === 'string' ? { LONGHAUL_CODEC_KEYS: facts.codecKeys } : {}),
    ...(facts.bundle === null ? {} : { LONGHAUL_BUNDLE: facts.bundle }),
    ...(facts.baseImage === null ? {} : { LONGHAUL_BASE_IMAGE: facts.baseImage }),
    ...trainerEnvironment(),
    PYTHONUNBUFFERED: '1',
  }
}

/** Files that a user may name from the directory of the command; the settings of the stack itself are absolute already. */
const FILES = [
  'TEMPORAL_CONFIG_FILE',
  'TEMPORAL_TLS_SERVER_CA_CERT_PATH',
  'TEMPORAL_TLS_CLIENT_CERT_PATH',
  'TEMPORAL_TLS_CLIENT_KEY_PATH',
] as const

/** The user's variables for processes that work in another directory than the command. */
export function withAbsolutePaths(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const absolute: NodeJS.ProcessEnv = { ...env }
  for (const name of FILES) if (env[name]) absolute[name] = resolve(env[name])
  const { LONGHAUL_WANDB_PYTHON: python } = env
  if (python) absolute['LONGHAUL_WANDB_PYTHON'] = programPath(python)
  const recipes = (env['LONGHAUL_RECIPES'] ?? '').split(':').filter((folder) => folder !== '')
  if (recipes.length > 0) absolute['LONGHAUL_RECIPES'] = recipes.map((folder) => resolve(folder)).join(':')
  return absolute
}

/** What a Python process needs to run the trainer's package. */
export function trainerEnvironment(): Record<string, string> {
  const trainer = packageFile('trainer')
  const pythonPath = process.env['PYTHONPATH'] ?? ''
  return {
    PYTHONPATH: pythonPath.split(delimiter).includes(trainer)
      ? pythonPath
      : [trainer, pythonPath].filter((part) => part !== '').join(delimiter),
    // Idle threads of the number libraries spin by default and take the other processes' cores.
    OMP_WAIT_POLICY: process.env['OMP_WAIT_POLICY'] ?? 'PASSIVE',
  }
}

/** Of this stack alone: `down` ends what it finds there. */
export function enginesDir(dataDir: string): string {
  return join(dataDir, 'engines')
}

/** Also the `longhaul.host` label of this stack's containers. */
export function stackHostId(name: string): string {
  return `${name}-${hostname()}`.replaceAll(/[^A-Za-z0-9-]/g, '-').slice(0, 40)
}
