/** The real MLflow server, TensorBoard's own reader and a reader of wandb's files, as processes. */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { LonghaulError } from '../../../src/contracts/errors.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'
import { HANG_MS } from '../hang.ts'
import { freePort } from '../loopback.ts'

type Found = { python: string } | { skip: string }

/** The interpreter with the packages, or why they are missing. They come from the package index once. */
export function findTrackerPackages(): Promise<Found> {
  return findPackages('trackers.lock', {
    what: 'MLflow’s server and TensorBoard, to receive metrics',
    takes: 'about two minutes, 70 MB to fetch',
  })
}

/** A separate environment, like users' beside the trainer's. */
export function findWandb(): Promise<Found> {
  return findPackages('wandb.lock', { what: 'wandb, to receive metrics', takes: 'about a minute, 35 MB to fetch' })
}

async function findPackages(lock: string, { what, takes }: { what: string; takes: string }): Promise<Found> {
  try {
    const { value: python } = await ensurePythonEnv({
      cacheDir: stackPaths().cacheDir,
      context: { signal: AbortSignal.timeout(600_000), log: (line) => console.error(line) },
      packages: {
        lockFile: join(import.meta.dirname, lock),
        what,
        takes,
        pipOptions: ['--no-deps', '--no-compile'],
      },
    })
    return { python }
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    return { skip: `the packages of trackers cannot be installed here: ${error.message.split('\n')[0] ?? ''}` }
  }
}

export interface MlflowServer {
  url: string
  stop(): Promise<void>
}

/** `mlflow server` over SQLite, its default. */
export async function startMlflow(python: string): Promise<MlflowServer> {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-mlflow-'))
  const port = await freePort()
  const store = [
    '--backend-store-uri',
    `sqlite:///${home}/mlflow.db`,
    '--default-artifact-root',
    join(home, 'artifacts'),
  ]
  const args = ['-m', 'mlflow', 'server', ...store, '--host', '127.0.0.1', '--port', String(port), '--workers', '1']
  const child = spawn(python, args, {
    cwd: home,
    // Its own group, because the server has children.
    detached: true,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      HOME: home,
      MLFLOW_DISABLE_TELEMETRY: 'true',
      // Jobs of other features, which need more packages.
      MLFLOW_SERVER_ENABLE_JOB_EXECUTION: 'false',
      PYTHONWARNINGS: 'ignore',
    },
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    await ended
    await rm(home, { recursive: true, force: true })
  }
  const url = `http://127.0.0.1:${port}`
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(250)) {
    if (child.exitCode !== null) throw new Error(`the MLflow server ended with ${child.exitCode}`)
    const signal = AbortSignal.timeout(5_000)
    if (
      await fetch(`${url}/health`, { signal }).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      return { url, stop }
  }
  await stop()
  throw new Error('the MLflow server did not become healthy')
}

/** By tag: step, seconds since 1970, value. */
export type Scalars = Record<string, [step: number, wallTime: number, value: number][]>

export interface EventReader {
  /** Reads again through the files that it has open. */
  read(): Promise<Scalars>
  stop(): Promise<void>
}

export function openEvents(python: string, folder: string): EventReader {
  const child = spawn(python, [join(import.meta.dirname, 'read-events.py'), folder], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], PYTHONWARNINGS: 'ignore' },
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async read() {
      child.stdin.write('\n')
      const line = await lines.next()
      if (line.done === true) throw new Error('the reader of event files has ended')
      return JSON.parse(line.value) as Scalars
    },
    async stop() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

export interface WandbFile {
  run: { run_id: string; project: string; entity: string; display_name: string }
  config: Record<string, unknown>
  /** Metric or pattern → the metric of its x axis. */
  metrics: Record<string, string>
  history: { values: Record<string, number>; step: number }[]
  isEnded: boolean
}

/** Reads with the package's own message classes. */
export async function readWandbFile(python: string, path: string): Promise<WandbFile> {
  const { stdout } = await promisify(execFile)(python, [join(import.meta.dirname, 'read-wandb.py'), path], {
    env: { PATH: process.env['PATH'], WANDB_ERROR_REPORTING: 'false' },
    maxBuffer: 1 << 28,
    timeout: HANG_MS,
  })
  return JSON.parse(stdout) as WandbFile
}
