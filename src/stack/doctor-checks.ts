import { access, constants, mkdir, open, rename, rm, statfs } from 'node:fs/promises'
import { availableParallelism, totalmem } from 'node:os'
import { join } from 'node:path'

import { asStoreError } from '../adapters/artifacts/store-errors.ts'
import { type BaseImageIdentity, readBaseImageRecipe } from '../adapters/docker/base-image-recipe.ts'
import { mayLimitDisk } from '../adapters/docker/disk-limit.ts'
import { connectEngine, type Engine } from '../adapters/docker/engine.ts'
import { imageExists } from '../adapters/docker/images.ts'
import { toLonghaulError } from '../contracts/errors.ts'
import { findImageRoom, findLeftovers } from './doctor-sandboxes.ts'
import type { StackPaths } from './paths.ts'
import { findEngine } from './setup/engine.ts'
import { engineFiles, engineRuns } from './setup/private-engine.ts'
import { findPython } from './setup/python-env.ts'
import { findProgram, mayInstallPackages } from './setup/system-packages.ts'
import { runCommand } from './run-command.ts'
import { stackStatus } from './status.ts'
import { inspectNamespace } from './temporal-namespace.ts'

export type Level = 'ok' | 'warn' | 'fail'

export interface Check {
  group: 'runtime' | 'temporal' | 'docker' | 'work'
  name: string
  level: Level
  value: string
  /** Why it matters. */
  why: string
  /** The command that fixes it; empty when nothing is wrong. */
  fix: string
}

type Finding = Omit<Check, 'group' | 'name' | 'why'>

const ok = (value: string): Finding => ({ level: 'ok', value, fix: '' })
const warn = (value: string, fix: string): Finding => ({ level: 'warn', value, fix })
const fail = (value: string, fix: string): Finding => ({ level: 'fail', value, fix })
const GIB = 1024 ** 3

/** An engine, a base image, a Python environment of 5 GB and a Go build need this much. */
const MIN_FREE_GIB = 12

export interface CheckDefinition {
  group: Check['group']
  name: string
  why: string
  run: (paths: StackPaths) => Promise<Finding>
}

export const CHECKS: readonly CheckDefinition[] = [
  {
    group: 'runtime',
    name: 'Node',
    why: 'workers run TypeScript sources and need Node 24',
    run: async () =>
      Number.parseInt(process.versions.node, 10) >= 24
        ? ok(process.versions.node)
        : fail(process.versions.node, 'npm ci (installs Node 24 beside the packages), then start it as npx longhaul'),
  },
  {
    group: 'runtime',
    name: 'machine',
    why: 'the local stack is measured on 2 cores and 8 GiB',
    run: async () => {
      const value = `${availableParallelism()} cores, ${(totalmem() / GIB).toFixed(0)} GiB, ${process.platform}-${process.arch}`
      if (process.platform !== 'linux') return warn(value, 'run it on Linux, or in a Linux virtual machine')
      return totalmem() < 6 * GIB ? warn(value, 'give it 8 GiB of memory') : ok(value)
    },
  },
  {
    group: 'runtime',
    name: 'clock',
    why: 'records, leases and TLS need a clock that is right',
    run: async () =>
      new Date().getUTCFullYear() >= 2026
        ? ok(new Date().toISOString())
        : fail(new Date().toISOString(), 'set the clock'),
  },
  { group: 'temporal', name: 'server', why: 'every run is a workflow on it', run: checkTemporal },
  { group: 'temporal', name: 'workers', why: 'without them a started run only waits', run: checkServices },
  { group: 'docker', name: 'engine', why: 'each episode runs in containers', run: checkEngine },
  {
    group: 'docker',
    name: 'storage',
    why: 'without overlay2 each container copies its whole image',
    run: checkStorage,
  },
  { group: 'docker', name: 'sandbox image', why: 'the tasks of the demo are made from it', run: checkImage },
  {
    group: 'docker',
    name: 'leftovers',
    why: 'what nobody owns takes memory and disk from the next run',
    run: (paths) => withEngine(paths, findLeftovers),
  },
  {
    group: 'docker',
    name: 'image room',
    why: 'task images are gigabytes each',
    run: (paths) =>
      withEngine(paths, (engine) => findImageRoom(engine, Number(process.env['LONGHAUL_MIN_FREE_GIB'] ?? '10'))),
  },
  {
    group: 'docker',
    name: 'debootstrap',
    why: 'makes the sandbox image where it is missing',
    run: async () => {
      const path = findProgram('debootstrap')
      if (path !== null) return ok(path)
      return (await mayInstallPackages())
        ? ok('not installed; longhaul up installs it')
        : warn('not installed', 'apt-get install debootstrap')
    },
  },
  { group: 'work', name: 'Python', why: 'trainer and policy server run on it', run: checkPython },
  { group: 'work', name: 'store', why: 'records are written, renamed and flushed in it', run: checkStore },
  {
    group: 'work',
    name: 'free disk',
    why: 'images, environments and checkpoints are large',
    run: async (paths) => {
      await mkdir(paths.cacheDir, { recursive: true })
      const { bavail, bsize, ffree, files } = await statfs(paths.cacheDir)
      const free = (bavail * bsize) / GIB
      const value = `${free.toFixed(0)} GiB at ${paths.cacheDir}`
      if (files > 0 && ffree < 100_000) return warn(`${value}, ${ffree} inodes`, 'free inodes (many small files)')
      return free < MIN_FREE_GIB ? warn(value, `free ${MIN_FREE_GIB} GiB, or set LONGHAUL_CACHE elsewhere`) : ok(value)
    },
  },
]

async function checkTemporal(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  const own = process.env['TEMPORAL_ADDRESS'] ?? ''
  const facts = status.state === 'down' ? null : status.record.facts
  const address = own !== '' ? own : facts?.temporalAddress
  if (address === undefined) return warn('no stack is up, and TEMPORAL_ADDRESS is not set', 'longhaul up')
  const namespace = facts?.namespace ?? process.env['LONGHAUL_NAMESPACE'] ?? 'default'
  try {
    const { serverVersion, retentionDays, missingAttributes } = await inspectNamespace({
      address,
      namespace,
      timeoutMs: 5_000,
    })
    const value = `${address}, server ${serverVersion}, namespace ${namespace}, retention ${retentionDays} days`
    if (missingAttributes.length > 0) return fail(`${value}, lacks ${missingAttributes.join(', ')}`, 'longhaul up')
    return retentionDays < 7
      ? warn(value, `temporal operator namespace update -n ${namespace} --retention 30d`)
      : ok(value)
  } catch (error) {
    return fail(
      toLonghaulError(error).message,
      own === '' ? 'longhaul up' : 'start that server, or unset TEMPORAL_ADDRESS',
    )
  }
}

async function checkServices(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  if (status.state === 'down') return warn(`stack "${status.name}" is down`, 'longhaul up')
  const bad = status.services.filter(({ state }) => state !== 'ready')
  if (bad.length === 0) return ok(status.services.map(({ name }) => name).join(', '))
  const value = bad.map(({ name, state, lastExit }) => `${name} ${state}${lastExit === null ? '' : ` (${lastExit})`}`)
  return fail(value.join(', '), `longhaul up; logs: ${bad[0]?.log ?? ''}`)
}

/** The engine that `up` would use; a private one only when it runs. */
async function reachableEngine(paths: StackPaths): Promise<Engine | null> {
  const host = await findEngine()
  if (host !== null) return connectEngine({ host })
  const files = engineFiles(paths)
  return (await engineRuns(files)) ? connectEngine({ host: `unix://${files.socket}` }) : null
}

async function withEngine(paths: StackPaths, look: (engine: Engine) => Promise<Finding>): Promise<Finding> {
  const engine = await reachableEngine(paths).catch(() => null)
  return engine === null ? warn('unknown without an engine', 'longhaul up') : look(engine)
}

async function checkEngine(paths: StackPaths): Promise<Finding> {
  try {
    const engine = await reachableEngine(paths)
    if (engine !== null)
      return ok(
        `${engine.host}, ${engine.version}, API ${engine.apiVersion}${engine.hasInit ? '' : ', no init helper'}`,
      )
  } catch (error) {
    return fail(toLonghaulError(error).message, 'start it, or unset DOCKER_HOST')
  }
  const canStart = process.getuid?.() === 0 && (findProgram('dockerd') !== null || (await mayInstallPackages()))
  return canStart
    ? warn('none is running', 'longhaul up (starts a private one, stopped by longhaul down)')
    : fail('none answers, and this user cannot start one', 'start Docker, or set DOCKER_HOST')
}

async function checkStorage(paths: StackPaths): Promise<Finding> {
  const engine = await reachableEngine(paths).catch(() => null)
  if (engine === null) return warn('unknown without an engine', 'longhaul up')
  const { storageDriver: driver, backingFilesystem, cgroupVersion } = engine.facts
  const counts = mayLimitDisk(engine) ? 'may limit' : 'cannot limit'
  const value = `${driver} over ${backingFilesystem ?? 'an unknown file system'}, cgroup v${cgroupVersion}, ${counts} what a container writes`
  return driver === 'vfs' ? warn(value, 'put LONGHAUL_CACHE on ext4 or xfs') : ok(value)
}

async function checkImage(paths: StackPaths): Promise<Finding> {
  const { tag }: BaseImageIdentity = await readBaseImageRecipe()
  const engine = await reachableEngine(paths).catch(() => null)
  if (engine === null) return warn(`${tag}: unknown without an engine`, 'longhaul up')
  return (await imageExists({ engine, image: tag })) ? ok(tag) : warn(`${tag} is missing`, 'longhaul up')
}

async function checkPython(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  const python = status.state === 'down' ? null : status.record.facts.python
  if (python === null) {
    const found = await findPython()
    if (found?.hasVenv === true) return warn(`${found.path} ${found.version}, environment not made yet`, 'longhaul up')
    return (await mayInstallPackages())
      ? warn('none with venv; longhaul up installs one', 'longhaul up')
      : fail('no Python 3.11 or newer with venv', 'apt-get install python3 python3-venv')
  }
  const script = 'import torch; print(torch.__version__, torch.cuda.is_available() and torch.cuda.get_device_name())'
  const { exitCode, stdout, tail } = await runCommand({ command: python, args: ['-c', script], timeoutMs: 15_000 })
  if (exitCode !== 0)
    return fail(tail.split('\n').at(-1) ?? 'torch does not load', `rm -r ${join(python, '..', '..')} && longhaul up`)
  const [version, device] = stdout.trim().split(' ')
  return ok(`torch ${version}, ${device === 'False' ? 'no GPU' : device}`)
}

async function checkStore(paths: StackPaths): Promise<Finding> {
  try {
    await mkdir(paths.artifactsDir, { recursive: true })
    await access(paths.artifactsDir, constants.W_OK)
    const probe = join(paths.artifactsDir, `.doctor-${process.pid}`)
    const file = await open(probe, 'w')
    try {
      await file.writeFile('probe')
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(probe, `${probe}.renamed`)
    await rm(`${probe}.renamed`)
    return ok(paths.artifactsDir)
  } catch (error) {
    const { code, message } = asStoreError(error, paths.artifactsDir)
    const fix =
      code === 'Artifact.OutOfDisk' ? 'free disk there (df)' : 'set LONGHAUL_HOME to a directory that you may write'
    return fail(`${paths.artifactsDir}: ${code}: ${message}`, fix)
  }
}
