/** Makes one layer of a task's image: runs steps in a container of the layer below and commits it at the end. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Container } from 'dockerode'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import type { BuildStage } from '../../contracts/task-images.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { LABELS, PROJECT } from '../docker/container/labels.ts'
import { removeContainer } from '../docker/container/create-container.ts'
import type { Engine } from '../docker/engine/engine.ts'
import { isStatus } from '../docker/engine/engine-errors.ts'
import { createDemultiplexer } from '../docker/engine/exec-stream.ts'
import { packFiles } from '../docker/engine/tar.ts'
import { buildFailure, diskFull, saysDiskFull } from './build-failure.ts'
import type { BuildLog } from './build-log.ts'
import { type PackageSettings, SETTINGS_DIR } from './package-settings.ts'
import { createKeyedQueue } from '../../platform/limiter.ts'

export type LayerStep =
  | { kind: 'script'; stage: BuildStage; script: string; fix: string }
  /** A tar that is unpacked into a directory. */
  | { kind: 'put'; stage: BuildStage; path: string; tar: () => Buffer | NodeJS.ReadableStream }

export interface LayerInput {
  engine: Engine
  tag: string
  below: string
  steps: readonly LayerStep[]
  settings: PackageSettings
  network: 'bridge' | 'host'
  /** Dockerfile instructions that the commit applies: labels, environment, directory. Receives the notes of the steps. */
  changes: (notes: string[]) => string[]
  log: BuildLog
  signal: AbortSignal
}

/** Compiling and installing a test suite's requirements takes minutes. A step that hangs is ended after this. */
const STEP_TIMEOUT_MS = 60 * 60_000
/** After this time the reaper removes the container of a killed builder. */
const MAX_LIFE_MS = 6 * STEP_TIMEOUT_MS
const MEMORY_BYTES = 8 * 1024 ** 3
const PROCESSES = 4096
/** The capabilities that package managers need. */
const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETFCAP', 'SETGID', 'SETUID', 'SYS_CHROOT']

/** Labels of the build container. They are cleared in the image, because every container of the image would inherit them. */
const OWN_LABELS = [LABELS.project, LABELS.role, LABELS.created, LABELS.maxLifeMs]
const WITHOUT_OWN_LABELS = OWN_LABELS.map((label) => `LABEL ${label}=""`)

/** Prefix of output lines that are recorded: where the image differs from the one it imitates. */
export const NOTE = 'longhaul: '

/** @throws LonghaulError `Image.BuildFailed` with the stage of the step that failed */
export async function makeLayer(input: LayerInput): Promise<void> {
  const { engine, tag, steps, log, signal } = input
  const notes: string[] = []
  // A container with this name is left from a killed build, because the host's lock excludes other builders.
  const name = `lh-layer-${sha256Hex(tag).slice(0, 16)}`
  await removeContainer({ engine, name })
  let stage: BuildStage = steps[0]?.stage ?? 'base'
  const container = await createBuilder(input, name).catch((cause: unknown) => {
    throw engineFailure(stage, cause)
  })
  const stop = (): void => void removeContainer({ engine, name }).catch(() => undefined)
  signal.addEventListener('abort', stop, { once: true })
  try {
    await startBuilder(container, input)
    await laySettings(container, input)
    for (const step of steps) {
      signal.throwIfAborted()
      stage = step.stage
      log.mark()
      log.line(`== ${stage}`)
      await (step.kind === 'put' ? putTar(container, step) : runScript(container, step, { ...input, notes }))
    }
    await requireNoSecrets(container, input)
    signal.throwIfAborted()
    const [repo, version] = tag.split(':') as [string, string]
    await container.commit({
      repo,
      tag: version,
      pause: false,
      changes: [...WITHOUT_OWN_LABELS, ...input.changes(notes)],
    })
  } catch (error) {
    signal.throwIfAborted()
    throw isLonghaulError(error) ? error : engineFailure(stage, error)
  } finally {
    signal.removeEventListener('abort', stop)
    await removeContainer({ engine, name })
  }
}

/** The error for an engine that fails under load, which neither the task nor its environment caused. */
function engineFailure(stage: BuildStage, cause: unknown): LonghaulError {
  if (isLonghaulError(cause)) return cause
  const said = cause instanceof Error ? cause.message : String(cause)
  if (saysDiskFull(said)) return diskFull({ stage, said, of: 'engine', cause })
  return buildFailure({
    stage,
    message: `The engine failed: ${said}. Layers that were made are kept: run the command again`,
    details: { engine: 'failed' },
    cause,
  })
}

async function createBuilder({ engine, below, network, settings }: LayerInput, name: string): Promise<Container> {
  const labels = {
    [LABELS.project]: PROJECT,
    [LABELS.role]: 'task-build',
    [LABELS.created]: String(Date.now()),
    [LABELS.maxLifeMs]: String(MAX_LIFE_MS),
  }
  return engine.docker.createContainer({
    name,
    Image: below,
    Entrypoint: [],
    // The engine's init helper reaps zombies. Without it the shell waits for orphaned processes.
    Cmd: ['/bin/sh', '-c', 'while :; do sleep 3600; done'],
    User: '0:0',
    WorkingDir: '/',
    Labels: labels,
    HostConfig: {
      NetworkMode: network,
      ...(engine.hasInit ? { Init: true } : {}),
      CapDrop: ['ALL'],
      CapAdd: CAPABILITIES,
      SecurityOpt: ['no-new-privileges:true'],
      Memory: MEMORY_BYTES,
      MemorySwap: MEMORY_BYTES,
      PidsLimit: PROCESSES,
      // A quarter of the default weight, so that a build yields to sandboxes and graders.
      CpuShares: 256,
      LogConfig: { Type: 'none', Config: {} },
      Tmpfs: { [SETTINGS_DIR]: 'rw,noexec,nosuid,nodev,size=16m,mode=0700' },
      // Keeps installers' caches out of the image. pip 18 breaks if its cache is disabled.
      Mounts: [{ Type: 'volume', Target: '/root/.cache', Source: '' }],
      Binds: [...settings.directories].map(([inside, outside]) => `${outside}:${inside}:ro`),
    },
  })
}

async function startBuilder(container: Container, { below }: LayerInput): Promise<void> {
  try {
    await container.start()
  } catch (cause) {
    if (!isStatus(cause, 400) && !isStatus(cause, 404)) throw cause
    const reason = cause instanceof Error ? cause.message.slice(0, 200) : ''
    throw buildFailure({
      stage: 'base',
      message: `A container of the image ${below} could not be started: ${reason}. It needs /bin/sh, bash and git`,
      cause,
    })
  }
}

/** Writes into memory. An archive that the engine unpacks would end up in the image below the mount. */
async function laySettings(container: Container, input: LayerInput): Promise<void> {
  const { settings, log } = input
  const entries = [...settings.files].map(([name, body]) => ({ name, body, mode: 0o600 }))
  entries.push({ name: 'secrets', body: Buffer.from(settings.secrets.join('\n')), mode: 0o600 })
  const tar = await packFiles(entries)
  const exec = await container.exec({
    // The length is given, because engines truncate the output when the input is closed, so tar cannot rely on its end.
    Cmd: ['/bin/sh', '-c', `head -c ${tar.length} | tar -x -C ${SETTINGS_DIR} -f -`],
    User: '0:0',
    WorkingDir: '/',
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
  })
  const socket = await exec.start({ hijack: true, stdin: true })
  socket.on('error', () => undefined)
  socket.resume()
  socket.write(tar)
  const code = await exitCodeOf(exec, AbortSignal.timeout(60_000))
  socket.destroy()
  if (code !== 0) log.line(`settings of package registries could not be laid in: tar ended with ${code}`)
}

async function putTar(container: Container, step: Extract<LayerStep, { kind: 'put' }>): Promise<void> {
  try {
    await container.putArchive(step.tar(), { path: step.path })
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause)
    if (saysDiskFull(said)) throw diskFull({ stage: step.stage, said, of: 'engine', cause })
    throw buildFailure({
      stage: step.stage,
      message: `Files could not be put into ${step.path}: ${said}`,
      cause,
    })
  }
}

async function runScript(
  container: Container,
  step: Extract<LayerStep, { kind: 'script' }>,
  { settings, log, signal, notes }: LayerInput & { notes: string[] },
): Promise<void> {
  const { stage, script, fix } = step
  const code = await execScript(container, {
    script,
    environment: settings.environment,
    onLine(line) {
      log.line(line)
      if (line.startsWith(NOTE)) notes.push(line.slice(NOTE.length))
    },
    signal: AbortSignal.any([signal, AbortSignal.timeout(STEP_TIMEOUT_MS)]),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    if (isStatus(error, 400) || isStatus(error, 404) || isStatus(error, 409)) return null
    throw error
  })
  if (code === 0) return
  if (saysDiskFull(log.tail())) throw diskFull({ stage, said: log.tail(), of: 'engine', log: log.path })
  const how =
    code === null
      ? `did not end within ${STEP_TIMEOUT_MS / 60_000} minutes, or lost its container`
      : `ended with ${code}`
  throw buildFailure({ stage, message: `${fix}. The script ${how}:\n${log.tail()}`, details: { log: log.path } })
}

interface ExecInput {
  script: string
  environment: Record<string, string>
  onLine: (line: string) => void
  signal: AbortSignal
}

async function execScript(container: Container, { script, environment, onLine, signal }: ExecInput) {
  const exec = await container.exec({
    Cmd: ['/bin/bash', '-c', script],
    User: '0:0',
    WorkingDir: '/',
    // Set for this process only, because a commit keeps the container's own environment.
    Env: Object.entries({ ...BUILD_ENVIRONMENT, ...environment }).map(([name, value]) => `${name}=${value}`),
    AttachStdout: true,
    AttachStderr: true,
  })
  const stream = await exec.start({ hijack: true, stdin: false })
  const lines = lineSplitter(onLine)
  const demultiplex = createDemultiplexer((_kind, payload) => lines.push(payload))
  const { promise, resolve } = Promise.withResolvers<void>()
  stream.on('data', demultiplex)
  for (const event of ['end', 'close', 'error']) stream.on(event, () => resolve())
  const aborted = (): void => void stream.destroy()
  signal.addEventListener('abort', aborted, { once: true })
  try {
    await promise
  } finally {
    signal.removeEventListener('abort', aborted)
    lines.end()
  }
  if (signal.aborted) return null
  return exitCodeOf(exec, signal)
}

const BUILD_ENVIRONMENT = {
  HOME: '/root',
  DEBIAN_FRONTEND: 'noninteractive',
  PIP_NO_INPUT: '1',
  PIP_DISABLE_PIP_VERSION_CHECK: '1',
  PIP_ROOT_USER_ACTION: 'ignore',
  PIP_PROGRESS_BAR: 'off',
  PYTHONDONTWRITEBYTECODE: '1',
}

/** A longer line becomes several, so that one without an end is not collected in memory. */
const LONGEST_LINE = 64 * 1024

function lineSplitter(onLine: (line: string) => void): { push(bytes: Buffer): void; end(): void } {
  const decoder = new TextDecoder()
  let rest = ''
  return {
    push(bytes) {
      const parts = (rest + decoder.decode(bytes, { stream: true })).split(/\r?\n/)
      rest = parts.pop() ?? ''
      for (const part of parts) onLine(part)
      if (rest.length < LONGEST_LINE) return
      // Between words, because a password in two parts would not be recognised.
      const end = rest.lastIndexOf(' ') + 1 || rest.length
      onLine(rest.slice(0, end))
      rest = rest.slice(end)
    },
    end() {
      if (rest !== '') onLine(rest)
      rest = ''
    },
  }
}

interface Inspectable {
  inspect(): Promise<{ Running: boolean; ExitCode: number | null }>
}

async function exitCodeOf(exec: Inspectable, signal: AbortSignal): Promise<number | null> {
  for (;;) {
    const { Running, ExitCode } = await exec.inspect()
    if (!Running) return ExitCode
    if (signal.aborted) return null
    await sleep(100)
  }
}

/** Installers write their source's address into unexpected places. */
async function requireNoSecrets(container: Container, input: LayerInput): Promise<void> {
  if (input.settings.secrets.length === 0) return
  const found: string[] = []
  const code = await execScript(container, {
    script: `grep -rlFs --devices=skip -f ${SETTINGS_DIR}/secrets /opt /root /etc /home /tmp /usr/local /var /testbed 2>/dev/null | head -n 3`,
    environment: {},
    onLine: (line) => found.push(line),
    signal: AbortSignal.any([input.signal, AbortSignal.timeout(STEP_TIMEOUT_MS)]),
  })
  if (code === 0 && found.length === 0) return
  throw buildFailure({
    stage: 'check',
    message: `An installation wrote a password of your package registry into the image, in ${found.join(', ')}. Use a registry without one, or a proxy that adds it`,
  })
}

export interface SharedLayers {
  /** Makes a layer. Two tasks never make the same one concurrently, and one that failed for a task fails at once for the next. */
  make(layer: { tag: string; taskId: string }, work: () => Promise<void>): Promise<void>
}

/** Layers that tasks of one command share. Its next start tries those that failed again. */
export function createSharedLayers(): SharedLayers {
  const queue = createKeyedQueue()
  const failed = new Map<string, { taskId: string; error: LonghaulError }>()
  return {
    make: ({ tag, taskId }, work) =>
      queue.run(tag, async () => {
        const earlier = failed.get(tag)
        if (earlier !== undefined) throw repeated(earlier)
        try {
          await work()
        } catch (error) {
          // A busy engine may make it for the next task; this one too is tried twice.
          if (isLonghaulError(error) && error.details['engine'] !== 'failed') failed.set(tag, { taskId, error })
          throw error
        }
      }),
  }
}

function repeated({ taskId, error }: { taskId: string; error: LonghaulError }): LonghaulError {
  const message = `Its environment is that of ${taskId}, which could not be made: see the message there`
  return new LonghaulError({ code: error.code, message, details: error.details, cause: error })
}
