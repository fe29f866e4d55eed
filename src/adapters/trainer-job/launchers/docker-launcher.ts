import type Docker from 'dockerode'
import { toLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import type { DockerLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { connectEngine, type Engine } from '../../docker/engine/engine.ts'
import { trainerArguments } from './launch-command.ts'
import type { Attempt, AttemptState, Launcher } from './launcher.types.ts'
import type { TrainerCommand } from './process-launcher.ts'
import { traceVariables } from '../../../platform/current-trace.ts'

/** `docker ps --filter label=longhaul.trainer.job` lists them. They differ from the labels of sandboxes, which the reaper removes by
 *  lease. */
const LABEL = {
  job: 'longhaul.trainer.job',
  key: 'longhaul.trainer.key',
  fence: 'longhaul.trainer.fence',
  directory: 'longhaul.trainer.directory',
} as const
const NOT_FOUND = 404
const NOT_RUNNING = 304
const CONFLICT = 409
const KEEP_ENDED_MS = 24 * 60 * 60_000
const FORGOTTEN_MS = 30_000

export interface DockerLauncherInput {
  options: DockerLauncherRecipe
  /** Only its environment is used; the container has its own interpreter. */
  command: TrainerCommand
  /** @default the engine of DOCKER_HOST */
  connect?: () => Promise<Engine>
  /** How long an ended container stays, for its log and its exit: longer than a worker is away. @default a day */
  keepEndedMs?: number
}

/** Runs jobs in containers of this machine's engine. The container is named after the job, so that a second launch conflicts. An ended
 *  container is kept for a day, so that its exit can be read, or until the same job is launched again. */
export function createDockerLauncher(input: DockerLauncherInput): Launcher {
  const { options, command, connect = connectEngine, keepEndedMs = KEEP_ENDED_MS } = input
  let engine: Promise<Engine> | null = null
  const docker = async (): Promise<Docker> => {
    engine ??= connect()
    try {
      return (await engine).docker
    } catch (cause) {
      engine = null
      throw unavailable('Expected the engine that runs training jobs to answer', cause)
    }
  }
  return {
    isElsewhere: false,
    pollMs: 500,
    settleMs: 0,
    // Four requests to the engine, each bounded by its client: look, remove an ended container, create, start; and the old containers.
    launchMs: 4 * 60_000 + FORGOTTEN_MS,
    async launch(attempt) {
      const client = await docker()
      await removeEnded(client, attempt)
      await removeForgotten(client, keepEndedMs)
      try {
        const container = await client.createContainer(trainerContainer({ options, command, attempt }))
        await container.start()
      } catch (cause) {
        // An engine that answered has refused. An engine that did not answer may still start the container.
        const refused = (cause as { statusCode?: number }).statusCode !== undefined
        const error = unavailable('Expected to start the container of a training job', cause, { refused })
        // One that cannot start would keep the job's name.
        if (refused) await removeEnded(client, attempt).catch(() => undefined)
        throw error
      }
    },
    look: async (attempt) => look(await docker(), attempt),
    async stop(attempt, graceMs) {
      const client = await docker()
      const found = await inspect(client, attempt)
      if (found === null || isGone(stateOf(found, attempt))) return true
      // By its id, because the name may belong to a newer attempt by now.
      const container = client.getContainer(found.Id)
      await ignoring([NOT_FOUND, NOT_RUNNING], container.stop({ t: Math.ceil(graceMs / 1000) }))
      return isGone(await look(client, attempt))
    },
  }
}

/** Everything that the job reads and writes lies below the artifact root, which has the same path inside the container. */
export function trainerContainer(input: {
  options: DockerLauncherRecipe
  command: TrainerCommand
  attempt: Attempt
}): Docker.ContainerCreateOptions {
  const { options, command, attempt } = input
  const { job, fence } = attempt
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0]
  return {
    name: nameOf(attempt),
    Image: options.image,
    Entrypoint: [],
    Cmd: [options.python, ...trainerArguments(attempt)],
    WorkingDir: job.jobDirectory,
    // Files in the store belong to the worker's user, and this home is writable for that user.
    User: `${uid}:${gid}`,
    Env: Object.entries({
      OMP_WAIT_POLICY: 'PASSIVE',
      HOME: '/tmp',
      ...command.env,
      ...traceVariables(),
      LONGHAUL_LAUNCHER_HANDLE: job.jobId,
    }).map(([name, value]) => `${name}=${value}`),
    Labels: {
      [LABEL.job]: job.jobId,
      [LABEL.key]: job.key,
      [LABEL.fence]: String(fence),
      [LABEL.directory]: job.jobDirectory,
    },
    StopSignal: 'SIGTERM',
    HostConfig: {
      Binds: [`${job.artifactRoot}:${job.artifactRoot}`, ...options.mounts.map((path) => `${path}:${path}:ro`)],
      ShmSize: options.shmGiB * 1024 ** 3,
      // The ranks of one machine communicate over loopback and need no other network.
      NetworkMode: 'none',
      SecurityOpt: ['no-new-privileges:true'],
      CapDrop: ['ALL'],
      // The job writes only into the store and into its home.
      ReadonlyRootfs: true,
      Tmpfs: { '/tmp': 'rw,exec,nosuid,nodev,mode=1777' },
      RestartPolicy: { Name: 'no' },
      ...(options.gpus ? { DeviceRequests: [{ Driver: '', Count: -1, Capabilities: [['gpu']] }] } : {}),
      LogConfig: { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '2' } },
    },
  }
}

async function look(client: Docker, attempt: Attempt): Promise<AttemptState> {
  return stateOf(await inspect(client, attempt), attempt)
}

/** A container with a lower fence belongs to an earlier attempt that holds the name; one with a higher fence has replaced this
 *  attempt. */
function stateOf(found: Docker.ContainerInspectInfo | null, attempt: Attempt): AttemptState {
  if (found === null || isOfAnotherStore(found, attempt) || fenceOf(found) < attempt.fence)
    return { kind: 'absent', how: 'gone with its container' }
  if (fenceOf(found) > attempt.fence) return { kind: 'over', code: null, how: 'replaced by a newer container' }
  const { State: state } = found
  if (state.Running) return { kind: 'alive' }
  // Its launcher starts it now, or died before it did, or was refused the start.
  if (state.Status === 'created') return { kind: 'absent', how: 'never started' }
  const how = state.OOMKilled
    ? 'killed for its memory → lower trainer.maxTokensPerMicro, or use a machine with more memory'
    : `ended by status ${state.ExitCode}`
  return { kind: 'over', code: state.ExitCode, how }
}

async function inspect(client: Docker, attempt: Attempt): Promise<Docker.ContainerInspectInfo | null> {
  return ignoring([NOT_FOUND], client.getContainer(nameOf(attempt)).inspect())
}

async function removeEnded(client: Docker, attempt: Attempt): Promise<void> {
  const found = await inspect(client, attempt)
  if (found === null) return
  if (isOfAnotherStore(found, attempt) && found.State.Running) {
    throw unavailable(
      `Expected the name ${nameOf(attempt)} to be free, but the equal job of another artifact store, in ${found.Config.Labels[LABEL.directory]}, has it → wait for its end`,
      undefined,
      { refused: true },
    )
  }
  if (!isOfAnotherStore(found, attempt) && (found.State.Running || fenceOf(found) > attempt.fence)) {
    throw unavailable(
      `Expected no other attempt in container ${nameOf(attempt)}, but attempt ${fenceOf(found)} has it`,
      undefined,
      {
        refused: true,
      },
    )
  }
  await ignoring([NOT_FOUND, CONFLICT], client.getContainer(found.Id).remove({ v: true }))
}

/** Ended containers of all jobs, also of runs that no longer exist: each holds a name and up to 20 MB of log. The launch does not depend
 *  on it. */
async function removeForgotten(client: Docker, keepEndedMs: number): Promise<void> {
  const abortSignal = AbortSignal.timeout(FORGOTTEN_MS)
  try {
    const filters = { label: [LABEL.job], status: ['exited', 'dead'] }
    const isOld = (sinceMs: number): boolean => Date.now() - sinceMs > keepEndedMs
    for (const { Id, Created } of await client.listContainers({ all: true, filters, abortSignal })) {
      // The list has no time of the end. Each launch would inspect all jobs of a day to learn it.
      if (!isOld(Created * 1000)) continue
      const container = client.getContainer(Id)
      const { State: state } = await container.inspect({ abortSignal })
      if (isOld(Date.parse(state.FinishedAt))) await container.remove({ v: true, abortSignal })
    }
  } catch {
    // The next launch tries again.
  }
}

/** Equal jobs of two stores on one engine have one name. Containers that an earlier version created do not say where they belong. */
function isOfAnotherStore(found: Docker.ContainerInspectInfo, { job }: Attempt): boolean {
  const directory = found.Config.Labels[LABEL.directory]
  return directory !== undefined && directory !== job.jobDirectory
}

function fenceOf(found: Docker.ContainerInspectInfo): number {
  return Number(found.Config.Labels[LABEL.fence])
}

function isGone({ kind }: AttemptState): boolean {
  return kind === 'over' || kind === 'absent'
}

function nameOf({ job }: Attempt): string {
  return `longhaul-${job.jobId}`
}

/** Returns null if the engine answered with one of the codes. @throws LonghaulError `Trainer.Unavailable` */
async function ignoring<T>(codes: number[], work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (cause) {
    if (codes.includes((cause as { statusCode?: number }).statusCode ?? 0)) return null
    throw unavailable('Expected the engine that runs training jobs to answer', cause)
  }
}

/** What an engine says when it cannot start a container. */
const REMEDIES: readonly (readonly [said: RegExp, remedy: string])[] = [
  [
    /no such image/i,
    'pull or load the image on the machine of the trainer worker (docker pull), or correct trainer.docker.image',
  ],
  [
    /could not select device driver|nvidia-container|libnvidia|unresolvable CDI/i,
    'install the NVIDIA Container Toolkit for this engine, or set trainer.docker.gpus: false',
  ],
  [
    /executable file not found|exec: "[^"]*": (?:stat|permission denied)|no such file or directory/i,
    'correct trainer.docker.python, the interpreter inside the image, or mount it with trainer.docker.mounts',
  ],
  [/invalid mount|bind source path|mount denied|not shared/i, 'correct trainer.docker.mounts'],
  [/no space left on device/i, "free space on the engine's disk (docker system df)"],
]

function unavailable(message: string, cause?: unknown, details: { refused?: boolean } = {}): LonghaulError {
  const said = cause === undefined ? '' : toLonghaulError(cause).message.trim()
  const remedy = REMEDIES.find(([pattern]) => pattern.test(said))?.[1]
  const why = said === '' ? '' : `: ${said}${remedy === undefined ? '' : ` → ${remedy}`}`
  return new LonghaulError({ code: 'Trainer.Unavailable', message: `${message}${why}`, details, cause })
}
