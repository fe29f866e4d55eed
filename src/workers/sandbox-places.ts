import { Runtime } from '@temporalio/worker'
import { createImageFinder, createImageProvider } from '../activities/gate/task-images.ts'
import { createEngineInspector, createImageVerifier } from '../activities/gate/verify-image.ts'
import { watchFinder, watchImages, watchSandbox, watchVerifier } from '../activities/runtime/watch.ts'
import { requireRuntime } from '../adapters/docker/container/create-container.ts'
import { countGraders, listSandboxes } from '../adapters/docker/container/list-sandboxes.ts'
import { createEnginePulse } from '../adapters/docker/engine/engine-errors.ts'
import { connectEngine, type Engine } from '../adapters/docker/engine/engine.ts'
import { createImageKeeper } from '../adapters/docker/images/image-keeper.ts'
import { resourcesOfEngine } from '../adapters/docker/reaper/reap-orphaned.ts'
import { listHeld } from '../adapters/docker/sandbox/admission.ts'
import { createDockerSandboxHost } from '../adapters/docker/sandbox/sandbox-host.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { hostIdentity } from '../platform/processes.ts'
import { openPods, type Pods } from './compose-pods.ts'
import type { Interposers } from './connect.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** Maximum number of containers that start or grade concurrently. On few cores, more would only wait for each other. */
const MAX_STARTING = 4

/** The engine of this machine, and what works with it. */
type LocalEngine = Awaited<ReturnType<typeof openEngine>>

async function openEngine(environment: WorkerEnvironment, namespaceId: string) {
  const { cacheDir, sandboxRuntime, pods } = environment
  const engine = await connectEngine()
  // For pods it is the name of a RuntimeClass.
  const runtime = pods === null ? sandboxRuntime : null
  if (runtime !== null) await requireRuntime(engine, runtime)
  const own = hostIdentity(environment.hostId)
  const keeper = createImageKeeper({ engine, cacheDir })
  const docker = createDockerSandboxHost({
    engine,
    keeper,
    ...own,
    namespaceId,
    maxStarting: MAX_STARTING,
    runtime,
    log: logInfo,
  })
  const watched = {
    name: `${engine.host} on ${own.hostId}`,
    pulse: createEnginePulse({ ping: () => engine.docker.ping() }),
  }
  return { engine, keeper, docker, own, watched, identity: await engineIdentity(engine) }
}

export function logInfo(message: string, facts: Record<string, unknown>): void {
  Runtime.instance().logger.info(message, facts)
}

/** What the reaper of this machine's engine works on. */
export function reapedBy({ engine, keeper, own }: LocalEngine, minFreeBytes: number) {
  return { hostId: own.hostId, holder: resourcesOfEngine(engine), images: { engine, keeper, minFreeBytes } }
}

/** Where sandboxes and graders run: both in containers, sandboxes in pods beside graders in containers, or both in pods. */
export type SandboxPlaces =
  | { pods: null; local: LocalEngine }
  | { pods: Pods; local: LocalEngine }
  | { pods: Pods; local: null }

/** @throws LonghaulError if the engine or the cluster cannot be used */
export async function openPlaces(environment: WorkerEnvironment, namespaceId: string): Promise<SandboxPlaces> {
  const { pods } = environment
  if (pods === null) return { pods: null, local: await openEngine(environment, namespaceId) }
  const inPods = { environment, pods, namespaceId, log: logInfo }
  if (pods.graders === 'pods') return { pods: await openPods({ ...inPods, graders: null }), local: null }
  const local = await openEngine(environment, namespaceId)
  return { pods: await openPods({ ...inPods, graders: local.docker }), local }
}

interface PlaceInput {
  places: SandboxPlaces
  namespaceId: string
  between: Interposers
}

/** What differs between the containers of this machine's engine and the pods of a namespace. */
export function placeOf(environment: WorkerEnvironment, { places, namespaceId, between }: PlaceInput) {
  const { sandboxCpus, sandboxMemoryMiB } = environment
  if (places.pods === null) {
    const { engine, docker, own, watched, identity } = places.local
    return {
      ...own,
      identity,
      host: watchSandbox({ host: between.sandbox(docker), engine: watched }),
      capacity: { cpus: sandboxCpus ?? engine.cpus, memoryMiB: sandboxMemoryMiB ?? engine.memoryMiB },
      listHeld: () => listHeld({ engine, namespaceId }),
      countGradings: async () => countGraders(await listSandboxes({ engine }), namespaceId),
    }
  }
  const { pods, local } = places
  const host = between.sandbox(pods.host)
  const inPods = watchSandbox({ host, engine: pods.watched })
  const common = {
    hostId: pods.hostId,
    hostQueue: pods.hostQueue,
    identity: pods.identity,
    capacity: { cpus: pods.cpus, memoryMiB: sandboxMemoryMiB ?? Number.POSITIVE_INFINITY },
    listHeld: pods.listHeld,
  }
  if (local === null) return { ...common, host: inPods, countGradings: pods.countGradings }
  const { engine, watched } = local
  const { grade, audit } = watchSandbox({ host, engine: watched })
  return {
    ...common,
    host: { ...inPods, grade, audit },
    countGradings: async () => countGraders(await listSandboxes({ engine }), namespaceId),
  }
}

/** Where images come from and are looked into. */
export function imagesOf(places: SandboxPlaces, { store, cacheDir }: { store: ArtifactStore; cacheDir: string }) {
  if (places.local !== null) {
    const { engine, keeper, watched } = places.local
    const ensureImage = watchImages({
      engine: watched,
      ensureImage: createImageProvider({ engine, cacheDir, keeper, log: (line) => console.error(line) }),
    })
    const inspector = createEngineInspector({ engine, keeper, ensureImage })
    return {
      ensureImage,
      finder: watchFinder({ engine: watched, finder: createImageFinder({ engine }) }),
      verifyImage: watchVerifier({ engine: watched, verifyImage: createImageVerifier({ inspector, store }) }),
    }
  }
  const { inspector, watched } = places.pods
  return {
    // The nodes pull them.
    ensureImage: async () => undefined,
    finder: { isHere: async () => false, isInRegistry: async () => null },
    verifyImage: watchVerifier({ engine: watched, verifyImage: createImageVerifier({ inspector, store }) }),
  }
}

/** Combines the engine's id with its data directory, because old versions give the same id to both engines of one machine. */
async function engineIdentity({ docker }: Engine): Promise<string> {
  const { ID: id, DockerRootDir: root } = (await docker.info()) as { ID?: string; DockerRootDir?: string }
  return `${id ?? 'unknown'} ${root ?? ''}`.trim()
}
