import { type StackPaths, makeCacheDirectory, stackPaths } from '../paths.ts'
import { type SetUpBoard, StepRunner, type StepTiming, type StepContext } from '../steps.ts'
import { ensureEngine, type StackEngine, findEngine } from './engine.ts'
import type { EngineUser } from './private-engine.ts'
import { type PreparedDatabase, prepareDatabase } from '../postgres/prepare-database.ts'
import { hasPostgres } from '../postgres/private-cluster.ts'
import type { TemporalStore } from '../temporal-store.ts'
import { ensurePythonEnv, findPython } from './python-env.ts'
import { installPackages, mayInstallPackages, findProgram, readDistribution } from './system-packages.ts'
import { ensureTemporalCli, type TemporalCli } from './temporal-cli.ts'
import { ensureTemporalServer, type TemporalServer } from './temporal-server.ts'
import { ensureWorkflowBundle } from './workflow-bundle.ts'
import { join } from 'node:path'
import { ensureBaseImage } from '../../adapters/docker/images/base-image.ts'
import { connectEngine } from '../../adapters/docker/engine/engine.ts'
import { ensureRunnerVolume } from '../../adapters/docker/sandbox/runner-volume.ts'
import { identify } from '../../platform/processes.ts'
import { programPath, requireProgram } from '../../platform/run-command.ts'
import { namesTemporalServer } from '../../platform/temporal-settings.ts'

export type StackPart = 'temporal' | 'engine' | 'python' | 'bundle'
const STACK_PARTS: readonly StackPart[] = ['temporal', 'engine', 'python', 'bundle']

interface SetUpOptions {
  paths?: StackPaths
  /** @default all */
  parts?: readonly StackPart[]
  /** Keeps a private engine running until `down` releases it. */
  engineUser: EngineUser
  log: (line: string) => void
  signal?: AbortSignal | undefined
  /** Progress for a display. @default none: the log repeats it now and then */
  board?: SetUpBoard | undefined
  /** Where the part `temporal` stores its runs. @default development */
  store?: TemporalStore
}

export interface SetUpResult {
  /** Null if the environment names a server, runs are stored in PostgreSQL, or the part was not requested. */
  temporal: TemporalCli | null
  /** Null unless runs are stored in PostgreSQL. */
  temporalServer: (TemporalServer & { database: PreparedDatabase }) | null
  engine: StackEngine | null
  baseImage: string | null
  python: string | null
  bundle: string | null
  timings: StepTiming[]
  seconds: number
}

/** Prepares everything that a stack needs before its start. Steps run concurrently, each cached by its inputs.
 *  @throws LonghaulError of the first step that failed */
export async function setUp(options: SetUpOptions): Promise<SetUpResult> {
  const { paths = stackPaths(), parts = STACK_PARTS, engineUser, log, signal, board } = options
  const { store = { kind: 'development' } } = options
  const started = Date.now()
  const runner = new StepRunner({ log, signal, board })
  const wants = (part: StackPart): boolean => parts.includes(part)
  const { cacheDir } = paths

  // The Go build takes longest: it starts first and delays no other step.
  const ownsTemporal = wants('temporal') && !namesTemporalServer()
  const temporal =
    ownsTemporal && store.kind === 'development'
      ? runner.step({
          name: 'temporal',
          silenceMs: 30 * 60_000,
          action: (context) => ensureTemporalCli({ cacheDir, context }),
        })
      : null
  const packages = runner.step({
    name: 'system',
    silenceMs: 10 * 60_000,
    action: async (context) => {
      const missing = await missingPackages({
        forEngine: wants('engine'),
        forPython: wants('python'),
        forPostgres: ownsTemporal && store.kind === 'postgres' && store.url === null,
      })
      if (missing.length === 0) return { value: undefined, did: 'nothing to install' }
      // Not an error here: the step that needs a package knows the alternatives.
      if (!(await mayInstallPackages())) return { value: undefined, did: `lacks ${missing.join(', ')}` }
      await installPackages({ packages: missing, context })
      return { value: undefined, did: `installed ${missing.join(', ')}` }
    },
  })
  const temporalServer =
    ownsTemporal && store.kind === 'postgres' ? prepareServer({ runner, packages, paths, store }) : null
  const engine = wants('engine')
    ? runner.step({
        name: 'engine',
        silenceMs: 5 * 60_000,
        after: [packages],
        action: (context) => ensureEngine({ paths, user: engineUser, context }),
      })
    : null
  const baseImage =
    engine === null
      ? null
      : runner.step({
          name: 'sandbox image',
          silenceMs: 30 * 60_000,
          after: [engine],
          action: async (context) => ensureSandboxImage({ dockerHost: (await engine).dockerHost, cacheDir, context }),
        })
  const python = wants('python')
    ? runner.step({
        name: 'python',
        silenceMs: 30 * 60_000,
        after: [packages],
        action: (context) => ensurePythonEnv({ cacheDir, context }),
      })
    : null
  const bundle = wants('bundle')
    ? runner.step({
        name: 'workflows',
        silenceMs: 3 * 60_000,
        action: (context) => ensureWorkflowBundle({ cacheDir, context }),
      })
    : null

  await runner.all()
  const seconds = (Date.now() - started) / 1000
  log(`set-up  ready after ${seconds.toFixed(1)} s`)
  return {
    temporal: await temporal,
    temporalServer: await temporalServer,
    engine: await engine,
    baseImage: await baseImage,
    python: await python,
    bundle: await bundle,
    timings: runner.timings,
    seconds,
  }
}

interface PrepareServerInput {
  runner: StepRunner
  packages: Promise<unknown>
  paths: StackPaths
  store: TemporalStore & { kind: 'postgres' }
}

/** Builds the programs and, once PostgreSQL is installed too, prepares the database. */
function prepareServer(input: PrepareServerInput): Promise<TemporalServer & { database: PreparedDatabase }> {
  const { runner, packages, paths, store } = input
  const built = runner.step({
    name: 'temporal',
    silenceMs: 45 * 60_000,
    action: (context) => ensureTemporalServer({ cacheDir: paths.cacheDir, context }),
  })
  const database = runner.step({
    name: 'database',
    // Ten minutes per schema step; each takes a second on a new database.
    silenceMs: 45 * 60_000,
    after: [packages, built],
    action: async (context) => prepareDatabase({ paths, store, server: await built, context }),
  })
  const both = Promise.all([built, database]).then(([server, prepared]) => ({ ...server, database: prepared }))
  // The runner reports a failure; the rejection must not count as unhandled.
  both.catch(() => undefined)
  return both
}

/** Distribution packages that later steps need; collected here, so that apt runs once. */
async function missingPackages({
  forEngine,
  forPython,
  forPostgres,
}: {
  forEngine: boolean
  forPython: boolean
  forPostgres: boolean
}): Promise<string[]> {
  const packages: string[] = []
  if (forPostgres && !(await hasPostgres())) packages.push('postgresql')
  if (forEngine) {
    if (findProgram('dockerd') === null && (await findEngine()) === null) {
      // tini is the engine's init helper for containers; Debian packages it separately.
      packages.push('docker.io', 'tini')
    }
    if (findProgram('debootstrap') === null) {
      packages.push('debootstrap')
      if ((await readDistribution()) === 'ubuntu') packages.push('debian-archive-keyring')
    }
    if (findProgram('git') === null) packages.push('git')
    // The sandbox runner is a static C program.
    if (['cc', 'gcc', 'clang'].every((compiler) => findProgram(compiler) === null)) packages.push('gcc', 'libc6-dev')
  }
  if (forPython && (await findPython())?.hasVenv !== true) packages.push('python3', 'python3-venv')
  return packages
}

interface EnsureSandboxImageInput {
  dockerHost: string
  cacheDir: string
  context: StepContext
}

/** @returns tag of the base image in that engine */
export async function ensureSandboxImage(input: EnsureSandboxImageInput): Promise<{ value: string; did: string }> {
  const engine = await connectEngine({ host: input.dockerHost })
  const { tag, did } = await ensureBaseImage({
    engine,
    cacheDir: join(input.cacheDir, 'images'),
    log: input.context.log,
    signal: input.context.signal,
  })
  await ensureRunnerVolume({ engine, image: tag })
  return { value: tag, did: did === 'nothing' ? 'present' : did }
}

/** Interpreter of the trainer's environment, created if missing; for `npm run check` and the benches. */
export async function findOrMakePython(): Promise<string> {
  const { python } = await setUp({
    parts: ['python'],
    engineUser: { key: `check-${process.pid}`, owner: identify(process.pid) },
    log: (line) => process.stderr.write(`${line}\n`),
  })
  if (python === null) throw new Error('The python part always yields an interpreter')
  return python
}

/** The Python that LONGHAUL_PYTHON names, else the trainer's. @throws LonghaulError `Config.Invalid` if that variable names no program */
export async function namedOrMadePython(env: NodeJS.ProcessEnv = process.env): Promise<string> {
  const { LONGHAUL_PYTHON: command } = env
  if (!command) {
    await makeCacheDirectory(stackPaths().cacheDir)
    return findOrMakePython()
  }
  await requireProgram({ variable: 'LONGHAUL_PYTHON', command, what: 'the Python with the trainer’s packages' })
  return programPath(command)
}
