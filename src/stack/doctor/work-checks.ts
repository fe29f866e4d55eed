import { randomUUID } from 'node:crypto'
import type { StatsFs } from 'node:fs'
import { access, constants, statfs, readdir, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { asStoreError, createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { openArtifactStore } from '../../adapters/artifacts/open-store.ts'
import { namesBucket } from '../../adapters/artifacts/s3/s3-location.ts'
import { isLonghaulError, LonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import { identify } from '../../platform/processes.ts'
import { errnoOf, exists, makeDirectory } from '../../platform/files.ts'
import { requireHeaderValue, requireHttpAddress } from '../../platform/quote-address.ts'
import { runCommand } from '../../platform/run-command.ts'
import type { StackPaths } from '../paths.ts'
import { findPython, preparedPython } from '../setup/python-env.ts'
import { mayInstallPackages } from '../setup/system-packages.ts'
import { stackStatus } from '../stack-record.ts'
import {
  type Asked,
  type CheckDefinition,
  fail,
  type Finding,
  fixCommand,
  GIB,
  type Mend,
  ok,
  warn,
} from './finding.ts'
import { isAbandonedLock, removeAbandonedLock } from '../../platform/directory-lock.ts'

/** Space for an engine, a base image, a Python environment of 5 GB and a Go build. */
const MIN_FREE_GIB = 12
/** Packages that the trainer and the policy server import; the lock file also pins their dependencies. */
const PACKAGES = ['torch', 'transformers', 'safetensors', 'tokenizers', 'numpy', 'fastapi', 'uvicorn', 'pydantic']
const ANSWER_MS = 5_000
/** Loading torch takes two seconds on an idle machine; all checks must end within 20. */
const LOAD_MS = 12_000

export const WORK_CHECKS: readonly CheckDefinition[] = [
  {
    group: 'work',
    name: 'Python',
    why: 'trainer and policy server run on it',
    roles: ['trainer'],
    run: checkPython,
  },
  {
    group: 'work',
    name: 'policy server',
    why: 'every turn is sampled from it, and it loads the trainer’s policies',
    roles: ['sandbox', 'trainer'],
    run: checkPolicyServer,
  },
  { group: 'work', name: 'store', why: 'each record is written once, by the first writer', run: checkStore },
  {
    group: 'work',
    name: 'locks',
    why: 'a lock whose process is gone shows that work was interrupted',
    run: checkLocks,
  },
  {
    group: 'work',
    name: 'free disk',
    why: 'images, environments and checkpoints are large',
    run: async (paths) => {
      const { bavail, bsize, ffree, files } = await statDisk(paths.cacheDir)
      const free = (bavail * bsize) / GIB
      const value = `${free.toFixed(0)} GiB at ${paths.cacheDir}`
      if (files > 0 && ffree < 100_000) return warn(`${value}, ${ffree} inodes`, 'free inodes (many small files)')
      return free < MIN_FREE_GIB ? warn(value, `free ${MIN_FREE_GIB} GiB, or set LONGHAUL_CACHE elsewhere`) : ok(value)
    },
  },
]

/** Of the file system in which the path is, or would be made. */
async function statDisk(path: string): Promise<StatsFs> {
  try {
    return await statfs(path)
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    return statDisk(dirname(path))
  }
}

async function checkPython(paths: StackPaths, asked?: Asked): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  const named = process.env['LONGHAUL_PYTHON'] ?? ''
  const python = named !== '' ? named : status.state === 'down' ? null : status.record.facts.python
  if (python !== null) return tryPackages(python, asked, paths)
  const prepared = await preparedPython(paths.cacheDir)
  if (prepared !== null) {
    const found = await tryPackages(prepared, asked, paths)
    const isForWorker = asked !== undefined && asked.role !== null
    if (found.level !== 'ok' || !isForWorker) return found
    return warn(`${found.value}, which LONGHAUL_PYTHON does not name`, `export LONGHAUL_PYTHON=${prepared}`)
  }
  const found = await findPython()
  if (found?.hasVenv === true) {
    return warn(`${found.path} ${found.version}, environment not made yet`, fixCommand(asked), MAKE_ENVIRONMENT)
  }
  return (await mayInstallPackages())
    ? warn('none with venv; the set-up installs one', fixCommand(asked), MAKE_ENVIRONMENT)
    : fail('no Python 3.11, 3.12 or 3.13 with venv', 'apt-get install python3 python3-venv')
}

/** Runs the same setup step as `up`. */
const MAKE_ENVIRONMENT: Mend = {
  what: 'make the Python environment of the trainer (about 3 minutes, 5 GB)',
  async run({ paths, log, signal }) {
    const { setUp } = await import('../setup/set-up.ts')
    const engineUser = { key: `doctor-${process.pid}`, owner: identify(process.pid) }
    const { python } = await setUp({ paths, parts: ['python'], engineUser, log, signal })
    return `made ${python}`
  },
}

async function tryPackages(python: string, asked: Asked | undefined, paths: StackPaths): Promise<Finding> {
  const script = [
    'import importlib.util, sys',
    `lacks = [name for name in ${JSON.stringify(PACKAGES)} if importlib.util.find_spec(name) is None]`,
    'sys.exit("lacks " + ", ".join(lacks)) if lacks else None',
    'import torch; print(torch.__version__, torch.cuda.is_available() and torch.cuda.get_device_name())',
  ].join('\n')
  const tried = await runCommand({ command: python, args: ['-c', script], timeoutMs: LOAD_MS, graceMs: 1_000 })
  const { exitCode, stdout, tail, timedOut } = tried
  // A cold disk or busy cores can cause the timeout; it proves nothing about the packages.
  if (timedOut) return warn(`${python}: torch did not load within ${LOAD_MS / 1000} s`, `${python} -c 'import torch'`)
  if (exitCode === 0) {
    const [version, ...device] = stdout.trim().split(' ')
    return ok(`${python}, torch ${version}, ${device.join(' ') === 'False' ? 'no GPU' : device.join(' ')}`)
  }
  const prepared = await preparedPython(paths.cacheDir)
  const isThere = !python.includes('/') || (await exists(python))
  const value = isThere
    ? `${python}: ${tail.trim().split('\n').at(-1) ?? 'torch does not load'}`
    : `${python} is not there`
  if (prepared !== null && prepared !== python) return fail(value, `export LONGHAUL_PYTHON=${prepared}`)
  if (prepared === null) return fail(value, `${fixCommand(asked)}, then export LONGHAUL_PYTHON`, MAKE_ENVIRONMENT)
  return fail(value, `rm -r ${join(python, '..', '..')} && ${fixCommand(asked)}`)
}

async function checkPolicyServer(paths: StackPaths): Promise<Finding> {
  const status = await stackStatus({ name: paths.name })
  const named = process.env['LONGHAUL_POLICY_URL'] ?? ''
  const url = named !== '' ? named : status.state === 'down' ? '' : status.record.facts.policyUrl
  if (url === '') return ok('LONGHAUL_POLICY_URL names none: recipes do, or longhaul up starts one')
  const key = process.env['LONGHAUL_POLICY_API_KEY'] ?? ''
  try {
    requireHttpAddress({ name: 'LONGHAUL_POLICY_URL', text: url, example: 'http://gpu-1:8000' })
    if (key !== '') requireHeaderValue('LONGHAUL_POLICY_API_KEY', key)
    const { status: code } = await fetch(`${url.replace(/\/$/, '')}/health`, {
      headers: key === '' ? {} : { authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(ANSWER_MS),
    })
    if (code === 401 || code === 403) return fail(`${url} refuses the key (${code})`, 'export LONGHAUL_POLICY_API_KEY')
    return code < 500 ? ok(`${url} answers`) : warn(`${url} answers with ${code}`, `look at the log of ${url}`)
  } catch (error) {
    if (isLonghaulError(error)) return fail(error.message, 'export it with another value')
    const cause = (error as Error).cause
    const reason = cause instanceof Error && cause.message !== '' ? cause.message : (error as Error).message
    return warn(`${url} does not answer: ${reason}`, 'start it, or export LONGHAUL_POLICY_URL=ADDRESS')
  }
}

/** Tests credentials, bucket and conditional writes, as a worker does at its start. */
async function checkBucketStore(location: string): Promise<Finding> {
  try {
    await openArtifactStore({ location, check: true })
    return ok(location)
  } catch (error) {
    const { code, message } = toLonghaulError(error)
    return fail(`${location}: ${code}: ${message}`, 'docs/object-store.md')
  }
}

async function checkStore(paths: StackPaths): Promise<Finding> {
  const { artifactsDir } = paths
  if (namesBucket(artifactsDir)) return checkBucketStore(artifactsDir)
  try {
    const made = await makeDirectory(artifactsDir)
    try {
      await access(artifactsDir, constants.W_OK)
      await tryPutIfAbsent(artifactsDir)
      return ok(made === undefined ? artifactsDir : `${artifactsDir}: absent, made by the first start`)
    } finally {
      // The check leaves nothing behind, in particular no store at a mistyped path.
      if (made !== undefined) await removeEmpty(made, artifactsDir)
    }
  } catch (error) {
    const { code, message } = asStoreError(error, artifactsDir)
    const fix =
      code === 'Artifact.OutOfDisk'
        ? 'free disk there (df)'
        : 'export LONGHAUL_ARTIFACTS to a directory that you may write, on a file system with hard links'
    return fail(`${artifactsDir}: ${code}: ${message}`, fix)
  }
}

/** Removes the store's `.tmp` folder, the directory and its parents up to `first`, as long as they are empty. */
async function removeEmpty(first: string, directory: string): Promise<void> {
  // The folder is absent if the store failed before it wrote.
  await rmdir(join(directory, '.tmp')).catch(() => undefined)
  try {
    for (let path = directory; path.length >= first.length; path = dirname(path)) await rmdir(path)
  } catch {
    // The directory is not empty: another process has begun to use it.
  }
}

/** Writes one key twice. Every record relies on the store refusing the second write. */
async function tryPutIfAbsent(root: string): Promise<void> {
  const store = createDirectoryStore({ root })
  const folder = `doctor-${randomUUID()}/`
  try {
    const key = `${folder}probe`
    await store.put(key, Buffer.from('first'))
    const second = await store.put(key, Buffer.from('second')).then(
      () => null,
      (error: unknown) => error,
    )
    if (isLonghaulError(second) && second.code === 'Artifact.Conflict') return
    throw (
      second ??
      new LonghaulError({ code: 'Config.Invalid', message: 'Expected the second put of one key to be refused' })
    )
  } finally {
    await store.removeFolder(folder).catch(() => undefined)
  }
}

async function checkLocks(paths: StackPaths, asked?: Asked): Promise<Finding> {
  const { held, stale, remove } = await findStaleLocks([paths.dataDir, paths.cacheDir, paths.runDir])
  if (stale.length === 0) return ok(`${held} held, none without an owner`)
  const value = `${stale.length} without an owner, such as ${stale[0]}`
  return warn(value, fixCommand(asked), {
    what: `remove ${stale.length} locks whose owners are gone`,
    async run() {
      const removed = await remove()
      return removed === 0 ? null : `removed ${removed} locks whose owners are gone`
    },
  })
}

/** Locks lie beside what they guard, at most this many levels below a searched directory. */
const DEPTH = 3

interface StaleLocks {
  /** Number of locks whose processes are alive. */
  held: number
  /** Paths of the abandoned locks. */
  stale: string[]
  /** Removes each lock that is still abandoned. @returns the number of removed locks */
  remove(): Promise<number>
}

/**
 * Finds locks (`withDirectoryLock`) whose owners died without releasing them. They are harmless, since the next process that needs such a
 * lock replaces it, but they confuse operators.
 */
async function findStaleLocks(places: readonly string[]): Promise<StaleLocks> {
  const locks = (await Promise.all(places.map((place) => locksBelow(place, DEPTH)))).flat()
  const abandoned = await Promise.all(locks.map(isAbandonedLock))
  const stale = locks.filter((_, at) => abandoned[at] === true)
  return {
    held: locks.length - stale.length,
    stale,
    async remove() {
      const removed = await Promise.all(stale.map(removeAbandonedLock))
      return removed.filter((gone) => gone).length
    },
  }
}

async function locksBelow(directory: string, depth: number): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
  const folders = entries.filter((entry) => entry.isDirectory())
  const locks = folders.filter(({ name }) => name.endsWith('.lock')).map(({ name }) => join(directory, name))
  if (depth <= 1) return locks
  // The data of the engine and the store have many folders and none of our locks.
  const deeper = folders.filter(({ name }) => !name.endsWith('.lock') && !NO_LOCKS.has(name))
  return [
    ...locks,
    ...(await Promise.all(deeper.map(({ name }) => locksBelow(join(directory, name), depth - 1)))).flat(),
  ]
}

const NO_LOCKS = new Set(['engine', 'artifacts', 'exec', 'bin', 'lib'])
