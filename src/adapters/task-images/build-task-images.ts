import { join } from 'node:path'
import { isLonghaulError, type LonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import type { BuildStage, BuiltTaskImage, FailedTaskImage, HostPython } from '../../contracts/task-images.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { createSlots } from '../../platform/limiter.ts'
import { taskEnvironment } from '../datasets/task-environment.ts'
import { ensureBaseImage } from '../docker/images/base-image.ts'
import { imageExists, imageFacts, pullImage } from '../docker/images/images.ts'
import { buildNetwork, type Engine } from '../docker/engine/engine.ts'
import { buildFailure, diskFull, saysDiskFull } from './build-failure.ts'
import { buildTaskImage, readRecord, type TaskImageBuilder } from './build-task-image.ts'
import { listHostPythons } from './host-pythons.ts'
import { readPackageSettings } from './package-settings.ts'
import { createSharedLayers } from './layer.ts'
import { openRepository, type Repository } from './repository.ts'
import { makeDirectory } from '../../platform/files.ts'

export interface BuildTaskImagesInput {
  engine: Engine
  tasks: readonly { task: Task; row: unknown }[]
  /** A directory of mirrors and bundles, or a prefix of addresses. */
  repositories: string
  /** Image to build on. @default one of Longhaul's own, which is made here */
  base: string | null
  /** Network of the build containers. @default the engine's bridge, otherwise the host's */
  network: 'bridge' | 'host' | null
  /** Number of tasks that are built concurrently. */
  jobs: number
  cacheDir: string
  log: (line: string) => void
  /** Called when a task's look-up or build begins. It may be called twice for a task. */
  onStart?: (taskId: string) => void
  /** Called when a task has ended. */
  onResult: (result: BuiltTaskImage | FailedTaskImage) => void
  signal: AbortSignal
  env?: NodeJS.ProcessEnv
}

/** Another builder may build a whole suite first. */
const LOCK_TIMEOUT_MS = 24 * 60 * 60_000

type Result = BuiltTaskImage | FailedTaskImage

/**
 * Builds the missing images of all tasks, with one builder per host at a time. A failed task does not stop the others, and existing
 * images do not wait for a builder.
 * @throws LonghaulError if nothing can be built at all
 */
export async function buildTaskImages(input: BuildTaskImagesInput): Promise<Result[]> {
  const { cacheDir, signal, log, tasks } = input
  const { attempt, builder } = createAttempt(input)
  const found = await attempt(tasks, true)
  const missing = tasks.filter((_, at) => found[at] === null)
  if (missing.length === 0) return found.filter((result) => result !== null)
  const folder = join(cacheDir, 'task-images')
  await makeDirectory(folder)
  const waiting = setTimeout(() => log('waiting for another build of this host to end'), 2_000)
  const lock = { path: join(folder, 'build.lock'), timeoutMs: LOCK_TIMEOUT_MS, signal }
  const built = await withDirectoryLock(lock, async () => {
    clearTimeout(waiting)
    // Without it every task would fail, with the same message.
    await builder()
    return attempt(missing, false)
  }).finally(() => clearTimeout(waiting))
  return tasks.flatMap((one, at) => found[at] ?? built[missing.indexOf(one)] ?? [])
}

/** Both rounds share the opened repositories and builders. */
function createAttempt(input: BuildTaskImagesInput) {
  const { jobs, signal, onResult } = input
  const builder = lazy(() => createBuilder(input))
  const open = new Map<string, Promise<Repository>>()
  const repositoryOf = (repo: string): Promise<Repository> => {
    const known = open.get(repo) ?? openRepository({ ...input, repo })
    open.set(repo, known)
    known.catch(() => undefined)
    return known
  }
  const slots = createSlots(jobs)
  const attempt = (tasks: readonly OneTask[], findOnly: boolean): Promise<(Result | null)[]> =>
    Promise.all(
      tasks.map((one) =>
        slots.use(async () => {
          input.onStart?.(one.task.taskId)
          const work = { input, one, builder, repositoryOf, findOnly }
          const first = await buildOne(work)
          // Finished layers are kept, so the second attempt is shorter.
          const result = first?.did === 'failed' && first.isOfEngine ? await buildOne(work) : first
          if (result !== null) onResult(result)
          return result
        }, signal),
      ),
    )
  return { attempt, builder }
}

/** Creates the value on first use, which is never for a suite whose images all exist. */
function lazy<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => (made ??= make())
}

async function createBuilder(input: BuildTaskImagesInput): Promise<TaskImageBuilder> {
  const { engine, cacheDir, log, signal } = input
  const base = await ensureBase(input).catch((cause: unknown) => {
    signal.throwIfAborted()
    const reason = cause instanceof Error ? cause.message : String(cause)
    const fix = input.base === null ? '' : '. Name another one with --base, or build without it'
    throw buildFailure({ stage: 'base', message: `The base image is not available: ${reason}${fix}`, cause })
  })
  const network = input.network ?? (await buildNetwork(engine))
  const pythons = [...(await listHostPythons(input.env)), ...(input.base === null ? [DEBIAN_PYTHON] : [])]
  const settings = readPackageSettings(input.env)
  const layers = createSharedLayers()
  return { engine, base, pythons, settings, network, cacheDir, layers, log, signal }
}

/** The Python of the base image's Debian release, which is considered last. */
const DEBIAN_PYTHON: HostPython = { kind: 'image', version: '3.11.2', prefix: '/usr', build: 'Debian 12' }

async function ensureBase({ engine, base, cacheDir, log, signal }: BuildTaskImagesInput): Promise<string> {
  if (base === null) {
    const made = await ensureBaseImage({ engine, cacheDir: join(cacheDir, 'images'), log, signal, name: 'task-base' })
    return made.tag
  }
  if (!(await imageExists({ engine, image: base }))) await pullImage({ engine, image: base, log, signal })
  return base
}

interface OneTask {
  task: Task
  row: unknown
}

interface BuildOneInput {
  input: BuildTaskImagesInput
  one: OneTask
  builder: () => Promise<TaskImageBuilder>
  repositoryOf: (repo: string) => Promise<Repository>
  findOnly: boolean
}

/** If the look-up fails for a reason, a build is tried and fails with that reason. */
async function buildOne(one: BuildOneInput): Promise<Result | null> {
  const { input, builder, repositoryOf, findOnly } = one
  const { task, row } = one.one
  const started = performance.now()
  const seconds = (): number => (performance.now() - started) / 1000
  const { engine, signal, log } = input
  try {
    const present = await foreignImage(engine, task)
    if (present !== null) return { ...present, seconds: seconds() }
    if (task.image.includes('@')) {
      throw buildFailure({
        stage: 'source',
        message: `The row names an image by its digest (${task.image}), which no other image can have: take the digest out of the row to build one`,
      })
    }
    const environment = taskEnvironment(row, task)
    const repository = await repositoryOf(task.repo)
    return await buildTaskImage(await builder(), { task, environment, repository, findOnly })
  } catch (error) {
    signal.throwIfAborted()
    if (findOnly) return null
    const known = isLonghaulError(error) ? error : ofHost(error)
    const logFile = known.details['log']
    const failure: FailedTaskImage = {
      taskId: task.taskId,
      image: task.image,
      did: 'failed',
      stage: (known.details['stage'] as BuildStage | undefined) ?? 'source',
      code: known.code,
      message: known.message,
      seconds: seconds(),
      log: typeof logFile === 'string' ? logFile : null,
      isOfEngine: known.details['engine'] === 'failed',
    }
    log(`${task.taskId}: failed at the stage ${failure.stage}`)
    return failure
  }
}

/** Wraps errors that no stage has described, such as those of files that this process writes. */
function ofHost(cause: unknown): LonghaulError {
  const said = cause instanceof Error ? cause.message : String(cause)
  return saysDiskFull(said) ? diskFull({ stage: 'source', said, of: 'host', cause }) : toLonghaulError(cause)
}

/** Returns the image that the row names if it exists and this command did not build it: a published image takes precedence over ours. */
async function foreignImage(engine: Engine, task: Task): Promise<BuiltTaskImage | null> {
  const facts = await imageFacts({ engine, image: task.image })
  if (facts === null || (await readRecord(engine, task.image)) !== null) return null
  const { Size: bytes } = await engine.docker.getImage(task.image).inspect()
  const { taskId, image } = task
  return { taskId, image, tag: null, did: 'present', bytes, ownBytes: bytes, seconds: 0, record: null, log: null }
}
