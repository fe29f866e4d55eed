import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { writeFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { LonghaulError } from '../../../contracts/errors.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import { makeDirectory } from '../../../platform/files.ts'

interface BuildRootFilesystemInput {
  recipe: BaseImageRecipe
  /** Must not exist before the call. The caller removes it afterwards. */
  folder: string
  /** Gzip-compressed tar to write. */
  archive: string
  log: (line: string) => void
  signal: AbortSignal
}

/** Whether `buildRootFilesystem` can work. Another user's packages, or another system, are no reason to fail: see `buildInContainer`. */
export function canBootstrap(): boolean {
  return process.getuid?.() === 0 && DEBOOTSTRAP.some((path) => existsSync(path))
}

const DEBOOTSTRAP = ['/usr/sbin/debootstrap', '/usr/bin/debootstrap', '/usr/local/sbin/debootstrap']

/** Installs a minimal Debian into a folder, slims it and packs it. Needs root and debootstrap (with its default mirror).
 *  @throws LonghaulError `Stack.SetupFailed` with the last lines of the failing step */
export async function buildRootFilesystem(input: BuildRootFilesystemInput): Promise<void> {
  const { recipe, folder, archive, log, signal } = input
  if (!canBootstrap()) {
    throw failed('Without an engine, the base image is made by root with debootstrap: apt-get install debootstrap')
  }
  log(`base image: installing Debian ${recipe.suite} with ${recipe.packages.join(', ')}`)
  await run({
    log,
    signal,
    // debootstrap mounts /proc into the folder. In a private mount namespace, a killed build leaves no mount behind.
    command: ['unshare', '--mount', '--propagation', 'private', 'debootstrap', `--variant=${recipe.variant}`],
    args: [`--include=${recipe.packages.join(',')}`, recipe.suite, folder],
  })
  await slim(recipe, folder)
  log('base image: packing')
  await run({
    log,
    signal,
    command: ['tar'],
    args: ['--numeric-owner', '--sort=name', '-C', folder, '-I', 'gzip -1', '-cf', archive, '.'],
  })
}

async function slim(recipe: BaseImageRecipe, folder: string): Promise<void> {
  const globs = recipe.remove.map((glob) => `"$1"/${glob}`).join(' ')
  await run({
    log: () => undefined,
    signal: undefined,
    command: ['sh', '-c', `rm -rf ${globs}`],
    args: ['slim', folder],
  })
  // debootstrap copies these files from the building machine; the image must not contain them.
  await writeFile(join(folder, 'etc/resolv.conf'), '')
  await writeFile(join(folder, 'etc/hostname'), 'localhost\n')
  for (const directory of recipe.directories) await makeDirectory(join(folder, directory))
}

interface RunInput {
  command: string[]
  args: string[]
  log: (line: string) => void
  signal: AbortSignal | undefined
}

/** A build takes a minute with a good connection. A stalled mirror would hold it forever. */
const BUILD_TIMEOUT_MS = 2 * 60 * 60_000

/** The lines of debootstrap that mark progress, which hundreds of other lines would hide. */
const MILESTONE =
  /^I: (Retrieving InRelease|Resolving dep|Extracting|Installing core|Unpacking required|Configuring required|Unpacking the base|Configuring the base|Base system)/

function run({ command, args, log, signal }: RunInput): Promise<void> {
  const [program, ...first] = command as [string, ...string[]]
  const environment = { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' }
  const child = spawn(program, [...first, ...args], {
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const stop = (): void => void (child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'))
  const ended = AbortSignal.any([...(signal === undefined ? [] : [signal]), AbortSignal.timeout(BUILD_TIMEOUT_MS)])
  ended.addEventListener('abort', stop, { once: true })
  const tail: string[] = []
  let previous = ''
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      tail.push(line)
      if (tail.length > 15) tail.shift()
      const milestone = MILESTONE.exec(line)?.[1]
      if (milestone !== undefined && milestone !== previous) log(`base image: ${milestone.toLowerCase()}`)
      previous = milestone ?? previous
    })
  }
  return new Promise<void>((resolve, reject) => {
    child.on('error', (cause) =>
      reject(failed(`Expected the program ${program} to be installed: ${cause.message}`, cause)),
    )
    child.on('close', (code) => {
      if (code === 0) resolve()
      else reject(failed(`${command.join(' ')} ended with ${code ?? 'a signal'}:\n${tail.join('\n')}`))
    })
  }).finally(() => ended.removeEventListener('abort', stop))
}

function failed(message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Stack.SetupFailed', message, cause })
}

/** The path works from a checkout (`src/`) and from the package (`dist/`), because `infra/` lies beside both. */
const RECIPES = new URL('../../../../infra/images/', import.meta.url)

/** `debian-base` is for synthetic tasks. `task-base` has compilers and locales, and is for tasks whose images are built here. */
export type BaseImageName = 'debian-base' | 'task-base'

/** The inputs of a base image. Their hash is the image's tag, so every change makes a new image. */
interface BaseImageRecipe {
  suite: string
  variant: string
  packages: string[]
  /** Globs, relative to the root, of what is removed after the installation. */
  remove: string[]
  directories: string[]
  /** Raise this by hand when a change of the build script changes the result. */
  revision: number
}

export interface BaseImageIdentity {
  recipe: BaseImageRecipe
  hash: string
  tag: string
  /** Name of the archive in the cache, without its extension. */
  archive: string
}

export async function readBaseImageRecipe(name: BaseImageName = 'debian-base'): Promise<BaseImageIdentity> {
  const recipe = JSON.parse(await readFile(new URL(`${name}/recipe.json`, RECIPES), 'utf8')) as BaseImageRecipe
  const hash = sha256Hex(JSON.stringify(recipe)).slice(0, 12)
  return { recipe, hash, tag: `longhaul/${name}:${hash}`, archive: `${name}-${hash}` }
}
