import { fileURLToPath } from 'node:url'
import { refuseCustomHeaders } from '../adapters/policy-server/refuse-custom-headers.ts'
import { LonghaulError } from '../contracts/errors.ts'

/** What a worker process is told by its environment; `longhaul up` sets all of it. */
export interface WorkerEnvironment {
  /** LONGHAUL_TEMPORAL_ADDRESS or TEMPORAL_ADDRESS */
  temporalAddress: string
  /** LONGHAUL_NAMESPACE */
  namespace: string
  /** LONGHAUL_ARTIFACTS: directory of the artifact store */
  artifacts: string
  /** LONGHAUL_POLICY_URL: server of recipes that name none */
  policyUrl: string
  /** LONGHAUL_POLICY_API_KEY: sent as a bearer token, never stored */
  policyApiKey: string | null
  /** LONGHAUL_PYTHON: interpreter with the trainer's packages */
  python: string
  /** LONGHAUL_BUNDLE: prebuilt workflow bundle */
  bundle: string | null
  /** LONGHAUL_CACHE: user cache */
  cacheDir: string
  /** LONGHAUL_HOST_ID: stable name of this sandbox host */
  hostId: string | null
  /** LONGHAUL_LEASE_S: seconds that a sandbox lives without a sign of life; beyond a restart of the worker. @default 600 */
  leaseMs: number
  /** LONGHAUL_SANDBOX_RUNTIME: OCI runtime of this host's containers (runsc, kata); unset: the engine's own */
  sandboxRuntime: string | null
  /** LONGHAUL_MIN_FREE_GIB: below this much free disk at the engine, task images that were not needed for longest go. @default 10 */
  minFreeBytes: number
  /** LONGHAUL_SANDBOX_CPUS: what sandboxes of this host may ask for together; unset: all its processors */
  sandboxCpus: number | null
  /** LONGHAUL_SANDBOX_MEMORY_GIB: the same of memory; unset: all of it */
  sandboxMemoryMiB: number | null
  /** LONGHAUL_HUB_URL: another hub of data sets of the same layout; unset: the public one */
  hubUrl: string | null
  /** LONGHAUL_RECIPES (separated by ":"), then the package's own */
  recipeDirs: string[]
}

/** @throws LonghaulError `Config.Invalid` */
export function readWorkerEnvironment(env: NodeJS.ProcessEnv = process.env): WorkerEnvironment {
  refuseCustomHeaders(env)
  const required = (name: string): string => {
    const value = env[name]
    if (value !== undefined && value !== '') return value
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected ${name} in the environment of a worker; longhaul up sets it for the local stack`,
    })
  }
  const ownRecipes = fileURLToPath(new URL('../../recipes', import.meta.url))
  return {
    temporalAddress: env['LONGHAUL_TEMPORAL_ADDRESS'] ?? env['TEMPORAL_ADDRESS'] ?? '127.0.0.1:7233',
    namespace: env['LONGHAUL_NAMESPACE'] ?? 'default',
    artifacts: required('LONGHAUL_ARTIFACTS'),
    policyUrl: required('LONGHAUL_POLICY_URL'),
    policyApiKey: env['LONGHAUL_POLICY_API_KEY'] ?? null,
    python: env['LONGHAUL_PYTHON'] ?? 'python3',
    bundle: env['LONGHAUL_BUNDLE'] ?? null,
    cacheDir: required('LONGHAUL_CACHE'),
    hostId: env['LONGHAUL_HOST_ID'] ?? null,
    minFreeBytes: freeGib(env['LONGHAUL_MIN_FREE_GIB']) * 1024 ** 3,
    leaseMs: leaseSeconds(env['LONGHAUL_LEASE_S']) * 1000,
    sandboxRuntime: env['LONGHAUL_SANDBOX_RUNTIME'] ?? null,
    sandboxCpus: share('LONGHAUL_SANDBOX_CPUS', env['LONGHAUL_SANDBOX_CPUS'], 1),
    sandboxMemoryMiB: share('LONGHAUL_SANDBOX_MEMORY_GIB', env['LONGHAUL_SANDBOX_MEMORY_GIB'], 1024),
    hubUrl: env['LONGHAUL_HUB_URL'] ?? null,
    recipeDirs: [...(env['LONGHAUL_RECIPES'] ?? '').split(':').filter((dir) => dir !== ''), ownRecipes],
  }
}

/** Below a few seconds a busy machine would lose sandboxes that are in use. */
function leaseSeconds(text = '600'): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= 5) return value
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected LONGHAUL_LEASE_S to be an integer ≥ 5, got ${JSON.stringify(text)}`,
  })
}

function freeGib(text = '10'): number {
  const value = Number(text)
  if (text !== '' && value >= 0) return value
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected LONGHAUL_MIN_FREE_GIB to be a number ≥ 0, got ${JSON.stringify(text)}`,
  })
}

/** Null where nothing is said. */
function share(name: string, text: string | undefined, unit: number): number | null {
  if (text === undefined || text === '') return null
  const value = Number(text)
  if (Number.isFinite(value) && value > 0) return value * unit
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${name} to be a number > 0, got ${JSON.stringify(text)}`,
  })
}
