import { constants, existsSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { LonghaulError } from '../contracts/errors.ts'
import { fileURLToPath } from 'node:url'
import { namesBucket } from '../adapters/artifacts/s3/s3-location.ts'
import { errnoOf, isDirectory, makeDirectory } from '../platform/files.ts'
import { sha256Hex } from '../platform/hash.ts'

interface StackPathsInput {
  /** @default LONGHAUL_STACK, else `default` */
  name?: string | undefined
  /** Where stacks keep their data. @default LONGHAUL_HOME, else `$XDG_DATA_HOME/longhaul`, else `~/.local/share/longhaul` */
  home?: string | undefined
  env?: NodeJS.ProcessEnv
}

export interface StackPaths {
  name: string
  /** Reproducible data: binaries, virtual environments, images, bundles, the private engine's data. */
  cacheDir: string
  /** This stack's own data: artifacts, Temporal's database, logs, the record of running services. */
  dataDir: string
  /** A directory, or `s3://bucket/prefix`. */
  artifactsDir: string
  logsDir: string
  /** State of the policy server. */
  policyDir: string
  /** The running services, written by the supervisor. */
  recordFile: string
  /** The `StackConfig` that the supervisor runs. */
  configFile: string
  /** Short, since the path of a Unix socket has at most about 100 characters. Belongs to the cache, not to one stack. */
  runDir: string
  /** Reservations of ports that this user's stacks have chosen but not opened yet; common to all caches. */
  portsDir: string
}

const uid = process.getuid?.() ?? 0

export function stackPaths({ name, home, env = process.env }: StackPathsInput = {}): StackPaths {
  const stack = requireStackName(name ?? nonEmpty(env['LONGHAUL_STACK']) ?? 'default')
  const cacheDir = resolve(nonEmpty(env['LONGHAUL_CACHE']) ?? join(xdg(env, 'XDG_CACHE_HOME', '.cache'), 'longhaul'))
  const dataHome = home ?? nonEmpty(env['LONGHAUL_HOME']) ?? join(xdg(env, 'XDG_DATA_HOME', '.local/share'), 'longhaul')
  const dataDir = join(resolve(dataHome), 'stacks', stack)
  return {
    name: stack,
    cacheDir,
    dataDir,
    // An explicit `home` means a separate stack, to which another stack's LONGHAUL_ARTIFACTS must not apply.
    artifactsDir: placeOf((home === undefined && nonEmpty(env['LONGHAUL_ARTIFACTS'])) || join(dataDir, 'artifacts')),
    logsDir: join(dataDir, 'logs'),
    policyDir: join(dataDir, 'policy-server'),
    recordFile: join(dataDir, 'stack.json'),
    configFile: join(dataDir, 'plan.json'),
    runDir: join(runHome(env), `longhaul-${uid}-${sha256Hex(cacheDir).slice(0, 8)}`),
    portsDir: join(runHome(env), `longhaul-${uid}-ports`),
  }
}

/** Keeps the address of a bucket; makes a directory absolute. */
function placeOf(artifacts: string): string {
  return namesBucket(artifacts) ? artifacts : resolve(artifacts)
}

function runHome(env: NodeJS.ProcessEnv): string {
  if (uid === 0 && existsSync('/run')) return '/run'
  return nonEmpty(env['XDG_RUNTIME_DIR']) ?? '/tmp'
}

function requireStackName(name: string): string {
  if (/^[a-z0-9][a-z0-9-]{0,39}$/.test(name)) return name
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the stack's name to be at most 40 lower-case letters, digits and dashes, got ${JSON.stringify(name)}`,
  })
}

function xdg(env: NodeJS.ProcessEnv, variable: string, fallback: string): string {
  return nonEmpty(env[variable]) ?? join(nonEmpty(env['HOME']) ?? homedir(), fallback)
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value
}

/** The same file runs as `src/stack/x.ts` in a checkout and as `dist/stack/x.js` in an installed package. */
const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts')

export const PACKAGE_ROOT = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '')

export function isCheckout(): boolean {
  return RUNS_FROM_SOURCE
}

/** Path of one of our modules, to run with `node`: `moduleFile('stack/supervise')`. */
export function moduleFile(name: string): string {
  return fileURLToPath(new URL(`../${name}.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url))
}

/** A file that ships beside the code: `packageFile('infra/temporal-cli')`. */
export function packageFile(path: string): string {
  return fileURLToPath(new URL(`../../${path}`, import.meta.url))
}

/** @throws LonghaulError `Config.Invalid`; its message names the variable that sets another directory */
export async function makeStackDirectories({ dataDir, logsDir, cacheDir }: StackPaths): Promise<void> {
  await makePlace(dataDir, 'LONGHAUL_HOME')
  await makePlace(logsDir, 'LONGHAUL_HOME')
  await makeCacheDirectory(cacheDir)
}

/** For commands that use the cache without a stack. @throws LonghaulError as `makeStackDirectories` */
export async function makeCacheDirectory(cacheDir: string): Promise<void> {
  await makePlace(cacheDir, 'LONGHAUL_CACHE')
}

async function makePlace(path: string, variable: string): Promise<void> {
  try {
    await makeDirectory(path)
    await access(path, constants.W_OK | constants.X_OK)
    if (!(await isDirectory(path))) throw Object.assign(new Error('it is a file'), { code: 'ENOTDIR' })
  } catch (cause) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected a writable place for directories, got ${path} (${errnoOf(cause) ?? String(cause)}); set ${variable} to another directory`,
      details: { path },
      cause,
    })
  }
}
