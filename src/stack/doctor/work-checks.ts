import { access, constants, mkdir, open, rename, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { asStoreError } from '../../adapters/artifacts/directory-store.ts'
import { openArtifactStore } from '../../adapters/artifacts/open-store.ts'
import { namesBucket } from '../../adapters/artifacts/s3/s3-location.ts'
import { toLonghaulError } from '../../contracts/errors.ts'
import type { StackPaths } from '../paths.ts'
import { runCommand } from '../../platform/run-command.ts'
import { findPython } from '../setup/python-env.ts'
import { mayInstallPackages } from '../setup/system-packages.ts'
import { stackStatus } from '../stack-record.ts'
import { type CheckDefinition, fail, type Finding, GIB, ok, warn } from './finding.ts'

/** An engine, a base image, a Python environment of 5 GB and a Go build need this much. */
const MIN_FREE_GIB = 12

export const WORK_CHECKS: readonly CheckDefinition[] = [
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

/** As a worker tries it: credentials, bucket, conditional writes. */
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
  if (namesBucket(paths.artifactsDir)) return checkBucketStore(paths.artifactsDir)
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
