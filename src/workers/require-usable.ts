import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { namesBucket } from '../adapters/artifacts/s3/s3-location.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { errnoOf, isDirectory, makeDirectory } from '../platform/files.ts'
import { openInputFile } from '../platform/input-file.ts'
import { requireProgram } from '../platform/run-command.ts'
import type { Role } from './run-worker.ts'
import { UNNAMED_PYTHON, type WorkerEnvironment } from './worker-environment.ts'

type Need = (environment: WorkerEnvironment) => Promise<void>

/** The store is not listed, because each role opens it and reports its errors. */
const NEEDS: Readonly<Record<Role, readonly Need[]>> = {
  control: [needsBundle, needsRecipes],
  sandbox: [needsCache],
  trainer: [needsPython, needsEngines, needsWeights, needsWandb],
  artifacts: [needsWandb],
}

/**
 * Checks programs, files and directories that the environment names and these roles use. Without the check, the first activity that
 * needs one would fail long after the start, and so would every retry.
 * @throws LonghaulError `Config.Invalid`, `Config.NotFound`; the message names the variable
 */
export async function requireUsable(roles: readonly Role[], environment: WorkerEnvironment): Promise<void> {
  for (const need of new Set(roles.flatMap((role) => NEEDS[role]))) await need(environment)
}

async function needsBundle({ bundle }: WorkerEnvironment): Promise<void> {
  if (bundle === null) return
  const file = await openInputFile({ path: bundle, what: 'the workflow bundle that LONGHAUL_BUNDLE names' })
  await file.close()
}

/** The last directories are the package's own. */
async function needsRecipes({ recipeDirs }: WorkerEnvironment): Promise<void> {
  for (const path of recipeDirs.slice(0, -1)) {
    if (!(await isDirectory(path)))
      throw invalid(`Expected LONGHAUL_RECIPES to name directories of recipes, but ${path} is not a directory`)
  }
}

function needsCache({ cacheDir }: WorkerEnvironment): Promise<void> {
  return requireRoom('LONGHAUL_CACHE', cacheDir)
}

function needsEngines({ enginesDir, cacheDir }: WorkerEnvironment): Promise<void> {
  return requireRoom(enginesDir.startsWith(`${cacheDir}/`) ? 'LONGHAUL_CACHE' : 'LONGHAUL_ENGINES', enginesDir)
}

async function needsWeights({ artifacts, weights }: WorkerEnvironment): Promise<void> {
  if (!namesBucket(artifacts)) return
  await requireRoom(weights.isShared ? 'LONGHAUL_WEIGHTS' : 'LONGHAUL_CACHE', weights.directory)
}

async function needsPython({ python }: WorkerEnvironment): Promise<void> {
  if (python === UNNAMED_PYTHON) return
  await requireProgram({ variable: 'LONGHAUL_PYTHON', command: python, what: 'the Python with the trainer’s packages' })
}

async function needsWandb({ wandbPython }: WorkerEnvironment): Promise<void> {
  if (wandbPython === null) return
  await requireProgram({
    variable: 'LONGHAUL_WANDB_PYTHON',
    command: wandbPython,
    what: 'a Python with the package wandb',
  })
}

async function requireRoom(variable: string, path: string): Promise<void> {
  try {
    await makeDirectory(path)
    await access(path, constants.W_OK | constants.X_OK)
  } catch (cause) {
    const reason = errnoOf(cause) ?? String(cause)
    throw invalid(
      `Expected a directory that this worker can make and write to, got ${path} (${reason}): set ${variable} to another place`,
      cause,
    )
  }
}

function invalid(message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, cause })
}
