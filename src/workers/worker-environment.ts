import { isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readImportLimits } from '../adapters/datasets/parquet-rows.ts'
import { refuseCustomHeaders } from '../adapters/policy-server/refuse-custom-headers.ts'
import type { WeightsOptions } from '../adapters/artifacts/open-store.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { isBuildName } from '../contracts/keys.ts'
import { quoteAddress, requireHeaderValue, requireHttpAddress } from '../platform/quote-address.ts'
import { programPath } from '../platform/run-command.ts'
import { readTemporalSettings, type TemporalSettings } from '../platform/temporal-settings.ts'

/** The variables that a worker process reads from its environment; `longhaul up` sets all of them. */
export interface WorkerEnvironment {
  /** LONGHAUL_TEMPORAL_ADDRESS, LONGHAUL_NAMESPACE, otherwise Temporal's own variables and profile files */
  temporal: TemporalSettings
  /** LONGHAUL_ARTIFACTS: directory of the artifact store, or s3://bucket/prefix */
  artifacts: string
  /** LONGHAUL_STORE_PATIENCE_S: how long an activity retries an operation while the store is unavailable or full, before it fails.
   *  @default 3600 */
  storePatienceMs: number
  /** LONGHAUL_POLICY_URL: server for recipes that neither name nor launch one; if empty, such a recipe is refused at its first request */
  policyUrl: string
  /** LONGHAUL_POLICY_API_KEY: sent as a bearer token, never stored */
  policyApiKey: string | null
  /** LONGHAUL_PYTHON: interpreter with the trainer's packages */
  python: string
  /** LONGHAUL_BUNDLE: prebuilt workflow bundle */
  bundle: string | null
  /** LONGHAUL_BUILD_ID: name of the build that a control worker runs, which distinguishes it for Temporal; null: builds are not
   *  distinguished */
  buildId: string | null
  /** LONGHAUL_CACHE: user cache */
  cacheDir: string
  /** LONGHAUL_WEIGHTS, LONGHAUL_WEIGHTS_GIB: where policies and checkpoints of a bucket are cached, and the size of that cache.
   *  @default `weights` in the cache, 200 */
  weights: WeightsOptions
  /** LONGHAUL_HOST_ID: stable name of this sandbox host */
  hostId: string | null
  /** LONGHAUL_LEASE_S: seconds for which a sandbox, or an engine that Longhaul launched, lives without a sign of life; longer than a
   *  restart of the worker. @default 600 */
  leaseMs: number
  /** LONGHAUL_ENGINES: directory, on a disk of this host, of the engines that Longhaul launches. @default `engines` in the cache */
  enginesDir: string
  /** LONGHAUL_SANDBOX_RUNTIME: OCI runtime of this host's containers (runsc, kata); unset: the engine's own */
  sandboxRuntime: string | null
  /** LONGHAUL_MIN_FREE_GIB: below this much free disk at the engine, the least recently used task images are removed. @default 10 */
  minFreeBytes: number
  /** LONGHAUL_SANDBOX_CPUS: processors that the sandboxes of this host may request in total; unset: all its processors */
  sandboxCpus: number | null
  /** LONGHAUL_SANDBOX_MEMORY_GIB: the same for memory; unset: all of it */
  sandboxMemoryMiB: number | null
  /** LONGHAUL_SANDBOXES, LONGHAUL_GRADERS, LONGHAUL_KUBERNETES_NAMESPACE, LONGHAUL_KUBERNETES_SECCOMP: where agents' sandboxes run;
   *  null: in containers of this host's engine */
  pods: PodsEnvironment | null
  /** LONGHAUL_VIEWER_URL: where users read trajectories; runs show it in the Temporal UI. Ends with a slash; null if no viewer is
   *  known */
  viewerUrl: string | null
  /** LONGHAUL_HUB_URL: another hub of data sets with the same layout; unset: the public one */
  hubUrl: string | null
  /** LONGHAUL_WANDB_PYTHON: interpreter with the package wandb. Trackers read the variable themselves, as `longhaul track` does */
  wandbPython: string | null
  /** LONGHAUL_RECIPES (separated by ":"), followed by the package's own */
  recipeDirs: string[]
}

/** Settings for sandboxes that run as pods. */
export interface PodsEnvironment {
  /** LONGHAUL_KUBERNETES_NAMESPACE; null: the namespace of the kubeconfig's context */
  namespace: string | null
  /** LONGHAUL_KUBERNETES_SECCOMP: path of the runner's profile on the nodes, relative to the kubelet's folder of profiles; null: the
   *  default path */
  seccompProfile: string | null
  /** LONGHAUL_SANDBOX_CPUS: required, because nodes are not queried for their capacity */
  cpus: number
  /** LONGHAUL_GRADERS: `pods` grades and looks into images in pods too, and the worker needs no engine. @default containers */
  graders: 'containers' | 'pods'
}

/** Allowed hosts in private networks. Validated here, read where a connection is made; likewise LONGHAUL_IMPORT_MAX_GIB, read at an
 *  import. */
const HOST_LISTS = ['LONGHAUL_ALARM_HOSTS', 'LONGHAUL_ASSET_HOSTS'] as const

/** Used if the environment names no interpreter. No role is refused for a missing one, because launchers of clusters need no local
 *  Python. */
export const UNNAMED_PYTHON = 'python3'

/**
 * Reads the values only, in the same way for each role; `require-usable.ts` checks what they name. An empty variable counts as unset,
 * as in a file of variables that is filled in later. An empty number is an error.
 * @throws LonghaulError `Config.Invalid`
 */
export function readWorkerEnvironment(env: NodeJS.ProcessEnv = process.env): WorkerEnvironment {
  refuseCustomHeaders(env)
  for (const name of HOST_LISTS) requireHosts(name, env[name] ?? '')
  readImportLimits(env)
  const said = (name: string): string | null => env[name] || null
  const required = (name: string): string => {
    const value = said(name)
    if (value !== null) return value
    throw invalid(`Expected ${name} in the environment of a worker; longhaul up sets it for the local stack`)
  }
  const seconds = (name: string, standard: string, least: number): number =>
    wholeSeconds(name, env[name] ?? standard, least)
  const ownRecipes = fileURLToPath(new URL('../../recipes', import.meta.url))
  const cacheDir = resolve(required('LONGHAUL_CACHE'))
  const wandb = said('LONGHAUL_WANDB_PYTHON')
  const policyApiKey = said('LONGHAUL_POLICY_API_KEY')
  return {
    temporal: readTemporalSettings(env),
    artifacts: required('LONGHAUL_ARTIFACTS'),
    storePatienceMs: seconds('LONGHAUL_STORE_PATIENCE_S', '3600', 0) * 1000,
    policyUrl: httpAddress('LONGHAUL_POLICY_URL', said('LONGHAUL_POLICY_URL'), 'http://gpu-1:8000') ?? '',
    policyApiKey: policyApiKey === null ? null : requireHeaderValue('LONGHAUL_POLICY_API_KEY', policyApiKey),
    python: programPath(said('LONGHAUL_PYTHON') ?? UNNAMED_PYTHON),
    bundle: said('LONGHAUL_BUNDLE'),
    buildId: buildId(env['LONGHAUL_BUILD_ID']),
    cacheDir,
    weights: weightsPlace(env, cacheDir),
    enginesDir: resolve(said('LONGHAUL_ENGINES') ?? join(cacheDir, 'engines')),
    hostId: said('LONGHAUL_HOST_ID'),
    minFreeBytes: freeGib(env['LONGHAUL_MIN_FREE_GIB']) * 1024 ** 3,
    // With a lease of less than a few seconds, a busy machine would lose sandboxes that are in use.
    leaseMs: seconds('LONGHAUL_LEASE_S', '600', 5) * 1000,
    sandboxRuntime: said('LONGHAUL_SANDBOX_RUNTIME'),
    sandboxCpus: share('LONGHAUL_SANDBOX_CPUS', env['LONGHAUL_SANDBOX_CPUS'], 1),
    sandboxMemoryMiB: share('LONGHAUL_SANDBOX_MEMORY_GIB', env['LONGHAUL_SANDBOX_MEMORY_GIB'], 1024),
    pods: podsEnvironment(env),
    viewerUrl: viewerUrl(env['LONGHAUL_VIEWER_URL']),
    hubUrl: httpAddress('LONGHAUL_HUB_URL', said('LONGHAUL_HUB_URL'), 'https://hub.example.org'),
    wandbPython: wandb === null ? null : programPath(wandb),
    recipeDirs: [...(env['LONGHAUL_RECIPES'] ?? '').split(':').filter((dir) => dir !== ''), ownRecipes],
  }
}

function podsEnvironment(env: NodeJS.ProcessEnv): PodsEnvironment | null {
  const sandboxes = placeOf(env, 'LONGHAUL_SANDBOXES')
  const graders = placeOf(env, 'LONGHAUL_GRADERS')
  if (sandboxes === 'containers' && graders === 'pods') {
    throw invalid(
      'Expected LONGHAUL_SANDBOXES=pods beside LONGHAUL_GRADERS=pods: sandboxes in containers need an engine, which grades too',
    )
  }
  if (sandboxes === 'containers') return null
  const cpus = share('LONGHAUL_SANDBOX_CPUS', env['LONGHAUL_SANDBOX_CPUS'], 1)
  if (cpus === null) {
    throw invalid(
      'Expected LONGHAUL_SANDBOX_CPUS beside LONGHAUL_SANDBOXES=pods: how many processors the sandboxes of the namespace may request in total, for example its quota',
    )
  }
  const namespace = env['LONGHAUL_KUBERNETES_NAMESPACE'] || null
  // It becomes part of the addresses of the cluster's interface.
  if (namespace !== null && !/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(namespace)) {
    throw invalid(
      `Expected LONGHAUL_KUBERNETES_NAMESPACE to be at most 63 small letters, digits and -, got ${JSON.stringify(namespace)}`,
    )
  }
  return {
    namespace,
    seccompProfile: env['LONGHAUL_KUBERNETES_SECCOMP'] || null,
    cpus,
    graders,
  }
}

function placeOf(env: NodeJS.ProcessEnv, name: string): 'containers' | 'pods' {
  const place = env[name] || 'containers'
  if (place === 'containers' || place === 'pods') return place
  throw invalid(`Expected ${name} to be containers or pods, got ${JSON.stringify(place)}`)
}

/** Reads LONGHAUL_WEIGHTS and LONGHAUL_WEIGHTS_GIB. @throws LonghaulError `Config.Invalid` */
export function weightsPlace(env: NodeJS.ProcessEnv, cacheDir: string): WeightsOptions {
  const named = env['LONGHAUL_WEIGHTS'] ?? ''
  const limit = env['LONGHAUL_WEIGHTS_GIB'] ?? ''
  const gib = limit === '' ? DEFAULT_WEIGHTS_GIB : decimal(limit)
  if (named !== '' && !isAbsolute(named)) {
    throw invalid(`Expected LONGHAUL_WEIGHTS to be an absolute path, got ${JSON.stringify(named)}`)
  }
  if (!Number.isFinite(gib) || gib < 0) {
    throw invalid(`Expected LONGHAUL_WEIGHTS_GIB to be a number ≥ 0, got ${JSON.stringify(limit)}`)
  }
  return {
    directory: named === '' ? join(cacheDir, 'weights') : named,
    isShared: named !== '',
    limitBytes: gib * 1024 ** 3,
  }
}

/** Room for two policies of seven billion parameters with their checkpoints, which is what one iteration reads and writes. */
const DEFAULT_WEIGHTS_GIB = 200

/** Node's timers end at once beyond 24.8 days. */
const MOST_SECONDS = 2_000_000

/** Not a number for everything that JavaScript alone takes for one: blanks would be 0, and `1e999` and `0x10` numbers. */
function decimal(text: string): number {
  const value = /^\s*-?\d*\.?\d+(?:e[+-]?\d+)?\s*$/i.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(value) ? value : Number.NaN
}

function wholeSeconds(name: string, text: string, least: number): number {
  const value = decimal(text)
  if (Number.isInteger(value) && value >= least && value <= MOST_SECONDS) return value
  throw invalid(`Expected ${name} to be an integer ≥ ${least} and ≤ ${MOST_SECONDS}, got ${JSON.stringify(text)}`)
}

function httpAddress(name: string, text: string | null, example: string): string | null {
  return text === null ? null : requireHttpAddress({ name, text, example })
}

/** An address in the list would never match a host. */
function requireHosts(name: string, text: string): void {
  const wrong = text.split(',').find((host) => /[/@?#]|\S\s+\S/.test(host))
  if (wrong === undefined) return
  throw invalid(`Expected ${name} to be host or host:port with commas between, got ${quoteAddress(wrong.trim())}`)
}

function freeGib(text = '10'): number {
  const value = decimal(text)
  if (value >= 0) return value
  throw invalid(`Expected LONGHAUL_MIN_FREE_GIB to be a number ≥ 0, got ${JSON.stringify(text)}`)
}

function buildId(text = ''): string | null {
  if (text === '') return null
  if (isBuildName(text)) return text
  throw invalid(
    `Expected LONGHAUL_BUILD_ID to be up to 100 letters, digits and any of ._+- such as 2026-11-23-1a2b3c4, got ${JSON.stringify(text)}`,
  )
}

/** Validated because it becomes a link that users follow. */
function viewerUrl(text = ''): string | null {
  if (text === '') return null
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.search === '' && url.hash === '' && url.password === '') {
    return url.href.endsWith('/') ? url.href : `${url.href}/`
  }
  throw invalid(
    `Expected LONGHAUL_VIEWER_URL to be an address such as https://viewer.example.org/, got ${quoteAddress(text)}`,
  )
}

/** Returns null if the variable is not set. */
function share(name: string, text: string | undefined, unit: number): number | null {
  if (text === undefined || text === '') return null
  const value = decimal(text)
  if (value > 0) return value * unit
  throw invalid(`Expected ${name} to be a number > 0, got ${JSON.stringify(text)}`)
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}
