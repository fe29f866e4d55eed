import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TrackedPoint, TrackedRun, WandbRecipe } from '../../contracts/trackers.types.ts'
import { errnoOf, makeDirectory, readJson } from '../../platform/files.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { programPath, runCommand } from '../../platform/run-command.ts'
import type { Tracker } from './tracker.types.ts'

/** 20,000 rows take ten seconds of one core. Beyond this the package hangs. Sendings by workers end long before. */
const WRITING_MS = 300_000
const PROGRAM = fileURLToPath(new URL('./write-wandb.py', import.meta.url))
/** Exit code of `write-wandb.py` if its interpreter lacks the package. */
const WITHOUT_PACKAGE = 3

interface Row {
  step: number
  /** Seconds since 1970. */
  at: number
  values: Record<string, number>
}

interface WandbJob {
  folder: string
  entity: string | null
  project: string
  id: string
  name: string
  config: Record<string, string>
  rows: Row[]
}

/** Records which points the file beside it contains. A mark that does not match its file, after a crash between the two writes, is
 *  ignored. */
interface Mark {
  schema: 'longhaul.wandb/1'
  points: number
  pointsSha256: string
  fileSha256: string
}

/**
 * Writes one offline run of the package `wandb` for each run, by that package in its own process, because the package defines the file
 * format. A file that lacks points is rewritten completely and replaced atomically, so every point is in it once.
 */
export function wandbTracker(recipe: WandbRecipe, env: NodeJS.ProcessEnv): Tracker {
  return {
    name: `wandb ${recipe.directory} (${recipe.entity === null ? '' : `${recipe.entity}/`}${recipe.project})`,
    async send(run, { isDry, onSent, signal }) {
      if (run.points.length === 0) return
      const place = placeOf(recipe, run)
      const missing = run.points.length - (await pointsThere(place, run.points))
      if (missing > 0 && !isDry) await write({ recipe, env, run, place, signal })
      onSent(missing)
    },
  }
}

interface Place {
  /** Directory of all runs. */
  parent: string
  folder: string
  id: string
  file: string
  mark: string
}

/** A run of the same name in another artifact store has another id. */
function placeOf({ directory }: WandbRecipe, { run, id: execution, points }: TrackedRun): Place {
  const id = execution === '' ? run : `${run}-${sha256Hex(execution).slice(0, 8)}`
  const parent = join(directory, 'wandb')
  const started = new Date(points[0]?.atMs ?? 0).toISOString().replaceAll(/[-:]|\..*/g, '')
  const folder = join(parent, `offline-run-${started.replace('T', '_')}-${id}`)
  return { parent, folder, id, file: join(folder, `run-${id}.wandb`), mark: join(folder, 'longhaul.json') }
}

async function pointsThere({ file, mark }: Place, points: readonly TrackedPoint[]): Promise<number> {
  const said = await readJson<Mark>(mark).catch(() => null)
  if (said === null || !(said.points <= points.length)) return 0
  if (said.pointsSha256 !== hashOf(points.slice(0, said.points))) return 0
  try {
    return sha256Hex(await readFile(file)) === said.fileSha256 ? said.points : 0
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return 0
    throw unwritable(file, error)
  }
}

function hashOf(points: readonly TrackedPoint[]): string {
  return sha256Hex(JSON.stringify(points.map(({ metric, step, value, atMs }) => [metric, step, value, atMs])))
}

interface WriteInput {
  recipe: WandbRecipe
  env: NodeJS.ProcessEnv
  run: TrackedRun
  place: Place
  signal: AbortSignal
}

async function write({ recipe, env, run, place, signal }: WriteInput): Promise<void> {
  const work = await makeFolders(place)
  try {
    const written = await runPackage({ recipe, env, run, id: place.id, work, signal })
    const mark: Mark = {
      schema: 'longhaul.wandb/1',
      points: run.points.length,
      pointsSha256: hashOf(run.points),
      fileSha256: sha256Hex(await readFile(written)),
    }
    const marked = join(work, randomUUID())
    await writeFile(marked, JSON.stringify(mark))
    signal.throwIfAborted()
    await rename(written, place.file)
    await rename(marked, place.mark)
    // `wandb sync` leaves both beside a file that it has uploaded. It would skip the file from then on, or continue where it stopped.
    for (const mark of ['synced', 'syncstate']) await rm(`${place.file}.${mark}`, { force: true })
  } catch (error) {
    if (signal.aborted || error instanceof LonghaulError) throw error
    throw unwritable(place.file, error)
  } finally {
    await rm(work, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** @returns a folder on the same file system with a name that `wandb sync` does not take for a run */
async function makeFolders({ parent, folder }: Place): Promise<string> {
  try {
    await makeDirectory(folder)
    return await mkdtemp(join(parent, '.longhaul-'))
  } catch (error) {
    throw unwritable(folder, error)
  }
}

/** @returns path of the file that the package wrote */
async function runPackage(input: Omit<WriteInput, 'place'> & { id: string; work: string }): Promise<string> {
  const { recipe, env, run, id, work, signal } = input
  const job: WandbJob = {
    folder: work,
    entity: recipe.entity,
    project: recipe.project,
    id,
    name: run.run,
    config: { ...run.facts, run: run.run },
    rows: rowsOf(run.points),
  }
  const path = join(work, 'job.json')
  await writeFile(path, JSON.stringify(job))
  const named = env['LONGHAUL_WANDB_PYTHON'] ?? ''
  const python = named === '' ? 'python3' : programPath(named)
  const { exitCode, tail, timedOut } = await runCommand({
    command: python,
    args: ['-I', PROGRAM, path],
    cwd: work,
    // Inherits nothing from the worker's environment, because the package's variables change where it writes and which server it
    // contacts.
    env: { PATH: env['PATH'] ?? process.env['PATH'], HOME: work, WANDB_ERROR_REPORTING: 'false' },
    timeoutMs: WRITING_MS,
    graceMs: 1_000,
    signal,
  })
  if (exitCode === 0) return oneFile(join(work, 'wandb'), `run-${id}.wandb`)
  throw new LonghaulError({ code: 'Tracker.Unavailable', message: failureOf({ python, exitCode, tail, timedOut }) })
}

function failureOf(input: { python: string; exitCode: number | null; tail: string; timedOut: boolean }): string {
  const { python, exitCode, tail, timedOut } = input
  const variable = 'LONGHAUL_WANDB_PYTHON (of the trainer and artifact workers, or of longhaul track)'
  if (timedOut) return `The package wandb of ${python} did not end within ${WRITING_MS / 1000} s`
  if (exitCode === WITHOUT_PACKAGE)
    return `The package wandb cannot be imported by ${python}: install it there (pip install wandb), or name another interpreter in ${variable}`
  const reason = tail.split('\n').findLast((line) => line.trim() !== '') ?? 'no reason was given'
  return exitCode === null
    ? `The Python ${python} of the package wandb did not run (${reason}): name an interpreter that has the package in ${variable}`
    : `The package wandb of ${python} ended with ${exitCode}: ${reason}`
}

async function oneFile(folder: string, name: string): Promise<string> {
  for (const entry of await readdir(folder)) {
    if ((await readdir(join(folder, entry)).catch((): string[] => [])).includes(name)) return join(folder, entry, name)
  }
  throw new LonghaulError({
    code: 'Tracker.Refused',
    message: `Expected the package wandb to write ${name}, got no such file: check that its version is one that docs/training.md names`,
  })
}

/** All points of a record at one step form one row. */
function rowsOf(points: readonly TrackedPoint[]): Row[] {
  const rows: Row[] = []
  for (const { metric, step, value, atMs } of points) {
    const at = atMs / 1000
    const last = rows.at(-1)
    if (last !== undefined && last.step === step && last.at === at) last.values[metric] = value
    else rows.push({ step, at, values: { [metric]: value } })
  }
  return rows
}

function unwritable(path: string, error: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Tracker.Unavailable',
    message: `Weights & Biases: the offline run ${path} cannot be written (${errnoOf(error) ?? String(error)}): check that the directory exists and that this user may write to it`,
    cause: error,
  })
}
