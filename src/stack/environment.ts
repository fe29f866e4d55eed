import { delimiter, join, resolve } from 'node:path'
import { hostname } from 'node:os'

import { programPath } from '../platform/run-command.ts'
import { packageFile } from './paths.ts'

/**
 * The stack's environment variables. Users set those of the first table to change what `longhaul up` does; the stack's
 * processes read those of the second (`src/workers/worker-environment.ts`).
 *
 * | a user sets | to |
 * |---|---|
 * | LONGHAUL_STACK | name of the stack, several run side by side (`default`) |
 * | LONGHAUL_HOME | where stacks keep data (`$XDG_DATA_HOME/longhaul`) |
 * | LONGHAUL_CACHE | data that can be recreated (`$XDG_CACHE_HOME/longhaul`) |
 * | LONGHAUL_WEIGHTS | where policies and checkpoints of a bucket are cached (`weights` in the cache) |
 * | LONGHAUL_WEIGHTS_GIB | size limit of that cache, not counting what is in use (200) |
 * | TEMPORAL_ADDRESS or TEMPORAL_PROFILE, LONGHAUL_NAMESPACE | use an existing server (`src/platform/temporal-settings.ts`) |
 * | LONGHAUL_CODEC_KEYS | file of the keys that encrypt payloads (`src/platform/payload-codec.ts`) |
 * | TEMPORAL_CLI_PATH | a Temporal CLI to start the server with |
 * | DOCKER_HOST | use this engine and no other |
 * | LONGHAUL_POLICY_URL | use an existing policy server |
 * | LONGHAUL_ARTIFACTS | directory of the artifact store, or s3://bucket/prefix (a directory below the stack's data) |
 * | LONGHAUL_STORE_PATIENCE_S | seconds that an activity waits for an unavailable or full store (3600) |
 * | LONGHAUL_BASE_PYTHON | Python from which the trainer's environment is created |
 * | LONGHAUL_WANDB_PYTHON | Python with the package wandb, for recipes whose trackers name it |
 * | LONGHAUL_HUB_URL | another hub of data sets, with the layout of the public one |
 * | LONGHAUL_RECIPES | directories with more recipes, separated by ":" |
 * | LONGHAUL_MIN_FREE_GIB | below this much free disk at the engine, the least recently used images are removed (10) |
 * | LONGHAUL_SANDBOX_CPUS, LONGHAUL_SANDBOX_MEMORY_GIB | what all sandboxes together may request (all that the machine has) |
 * | LONGHAUL_SANDBOXES | `pods`: agents' sandboxes are pods of the cluster that KUBECONFIG names (`docs/cluster.md`) |
 * | LONGHAUL_GRADERS | `pods`: graders and checks of images are pods too, and the sandbox worker needs no engine |
 * | LONGHAUL_KUBERNETES_NAMESPACE, LONGHAUL_KUBERNETES_SECCOMP | namespace of these pods, and where nodes keep the runner's seccomp profile |
 * | LONGHAUL_LEASE_S | seconds after which a sandbox or a launched engine ends without a lease renewal (600) |
 * | LONGHAUL_METRICS_ADDRESS or LONGHAUL_METRICS_OTLP | where workers serve or send metrics (`src/workers/metrics.ts`); the roles take this port and the next ones |
 *
 * | a process of the stack gets | meaning |
 * |---|---|
 * | LONGHAUL_TEMPORAL_ADDRESS, LONGHAUL_NAMESPACE | the server and its namespace |
 * | LONGHAUL_UI_URL | Temporal UI; empty for an external server |
 * | LONGHAUL_ARTIFACTS | directory of the artifact store, or s3://bucket/prefix |
 * | LONGHAUL_POLICY_URL | policy server |
 * | LONGHAUL_PYTHON, PYTHONPATH | interpreter with the trainer's packages, and the trainer's path |
 * | LONGHAUL_BUNDLE | prebuilt workflow bundle |
 * | LONGHAUL_BASE_IMAGE | tag of the sandbox base image |
 * | LONGHAUL_HOST_ID | name of this machine as a sandbox host; differs by stack, so that a stack's reaper spares other stacks |
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
  /** For operators: where the server stores its runs. Absent for an external server and in stacks of earlier versions. */
  temporalStore?: string
  /** Null for an external server. */
  uiUrl: string | null
  policyUrl: string
  /** Null if no engine was requested. */
  dockerHost: string | null
  python: string | null
  bundle: string | null
  baseImage: string | null
  /** Default address of `longhaul view`; absent in stacks of earlier versions. */
  viewerUrl?: string
  /** Path of the file with payload keys; null or absent if payloads are not encrypted. */
  codecKeys?: string | null
}

/** Variables that a process needs to reach the stack, in addition to the caller's environment. */
export function stackEnvironment(facts: StackFacts): Record<string, string> {
  return {
    LONGHAUL_STACK: facts.name,
    // The data directory is `<home>/stacks/<name>`.
    LONGHAUL_HOME: join(facts.dataDir, '..', '..'),
    LONGHAUL_CACHE: facts.cacheDir,
    // A stack gets new code by `down` and `up`. With a build ID, its workers would wait for an operator to promote the build.
    LONGHAUL_BUILD_ID: '',
    // Several processes cannot share one address, and the supervisor watches its processes directly.
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

/** What the workers of a stack will read, as far as it is known before a set-up. */
export function plannedEnvironment(
  { cacheDir, artifactsDir }: { cacheDir: string; artifactsDir: string },
  env: NodeJS.ProcessEnv = process.env,
): NodeJS.ProcessEnv {
  const {
    LONGHAUL_PYTHON: _python,
    LONGHAUL_BUNDLE: _bundle,
    LONGHAUL_ENGINES: _engines,
    ...kept
  } = withAbsolutePaths(env)
  return { ...kept, LONGHAUL_CACHE: cacheDir, LONGHAUL_ARTIFACTS: artifactsDir, LONGHAUL_BUILD_ID: '' }
}

/** Variables whose paths may be relative to the command's directory. The stack's own paths are already absolute. */
const FILES = [
  'TEMPORAL_CONFIG_FILE',
  'TEMPORAL_TLS_SERVER_CA_CERT_PATH',
  'TEMPORAL_TLS_CLIENT_CERT_PATH',
  'TEMPORAL_TLS_CLIENT_KEY_PATH',
] as const

/** The user's variables for processes that run in another directory than the command. */
export function withAbsolutePaths(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const absolute: NodeJS.ProcessEnv = { ...env }
  for (const name of FILES) if (env[name]) absolute[name] = resolve(env[name])
  const { LONGHAUL_WANDB_PYTHON: python } = env
  if (python) absolute['LONGHAUL_WANDB_PYTHON'] = programPath(python)
  const recipes = (env['LONGHAUL_RECIPES'] ?? '').split(':').filter((folder) => folder !== '')
  if (recipes.length > 0) absolute['LONGHAUL_RECIPES'] = recipes.map((folder) => resolve(folder)).join(':')
  return absolute
}

/** Variables that a Python process needs to run the trainer's package. */
export function trainerEnvironment(): Record<string, string> {
  const trainer = packageFile('trainer')
  const pythonPath = process.env['PYTHONPATH'] ?? ''
  return {
    PYTHONPATH: pythonPath.split(delimiter).includes(trainer)
      ? pythonPath
      : [trainer, pythonPath].filter((part) => part !== '').join(delimiter),
    // By default, idle OpenMP threads spin and take cores from other processes.
    OMP_WAIT_POLICY: process.env['OMP_WAIT_POLICY'] ?? 'PASSIVE',
  }
}

/** Belongs to this stack alone: `down` stops every engine that it finds there. */
export function enginesDir(dataDir: string): string {
  return join(dataDir, 'engines')
}

/** Also the `longhaul.host` label of this stack's containers. */
export function stackHostId(name: string): string {
  return `${name}-${hostname()}`.replaceAll(/[^A-Za-z0-9-]/g, '-').slice(0, 40)
}
