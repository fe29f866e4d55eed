import { type NativeConnection, Runtime } from '@temporalio/worker'
import { createHostActivities } from './host-activities.ts'
import { createSettingResolver, turnSeed } from '../activities/episode/episode-spec.ts'
import { createDefuseFor, createSamplers } from '../activities/episode/samplers.ts'
import { createSandboxActivities } from './sandbox-activities.ts'
import { createHostDoor, type HostDoor } from '../activities/runtime/host-door.ts'
import { joinAsHost } from './host-membership.ts'
import { activitiesOnly, createWorkSlots, placementPauseMs } from './work-slots.ts'
import { createImageFinder, createImageProvider } from '../activities/gate/task-images.ts'
import { createPlanReader } from '../activities/grading/stored-plan.ts'
import { createImageVerifier } from '../activities/gate/verify-image.ts'
import { createRecipeReader, createSuiteReader, createTaskReader } from '../activities/runtime/stored-records.ts'
import { admitSandboxes } from '../activities/runtime/admit-sandboxes.ts'
import { watchFinder, watchImages, watchSandbox, watchVerifier } from '../activities/runtime/watch.ts'
import { createAdmission, listHeld, type Admission } from '../adapters/docker/sandbox/admission.ts'
import { connectEngine, type Engine } from '../adapters/docker/engine/engine.ts'
import { createEnginePulse } from '../adapters/docker/engine/engine-pulse.ts'
import { createImageKeeper } from '../adapters/docker/images/image-keeper.ts'
import { resourcesOfEngine } from '../adapters/docker/reaper/reap-orphaned.ts'
import { createDockerSandboxHost } from '../adapters/docker/sandbox/sandbox-host.ts'
import { resourcesOfCluster } from '../adapters/kubernetes/list-pods.ts'
import { openPods } from './compose-pods.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import type { Composed } from './compose-role.ts'
import { connectStore, chatClientsOf, policyClientsOf, type Interposers, requireNamespaceId } from './connect.ts'
import { startHostReaper } from './reaper.ts'
import type { WorkerEnvironment } from './worker-environment.ts'
import { hostIdentity } from '../platform/host-identity.ts'
import { requireRuntime } from '../adapters/docker/container/create-container.ts'
import { listSandboxes } from '../adapters/docker/container/list-sandboxes.ts'
import type { HostFacts, HostResources } from '../contracts/hosts.types.ts'

/** Maximum number of containers that start or grade concurrently. On few cores, more would only wait for each other. */
const MAX_STARTING = 4

/** Composes three workers in one process: placement and grading for any host, and the queue of this host's own sandboxes. */
export async function composeSandbox(
  environment: WorkerEnvironment,
  connection: NativeConnection,
  between: Interposers,
): Promise<Composed> {
  const machine = await openMachine(environment, connection, between)
  const { docker, pods, admission, engine, keeper, hostId, hostQueue, engineHostId, namespaceId, shared, door } =
    machine
  const { minFreeBytes, temporal } = environment
  const { namespace } = temporal
  const letGo = (): void => {
    door.stop()
    admission.dispose()
    pods?.host.dispose()
    docker.dispose()
    keeper.dispose()
  }
  const membership = await joinAsHost({
    temporal,
    host: hostId,
    holder: { queue: hostQueue, engine: pods?.identity ?? (await engineIdentity(engine)) },
    door,
    log: (message, facts) => Runtime.instance().logger.info(message, facts),
  }).catch((error: unknown): never => {
    letGo()
    throw error
  })
  const owned = { namespaceId, namespace, connection, store: shared.store }
  const reapers = [
    startHostReaper({
      ...owned,
      hostId: engineHostId,
      holder: resourcesOfEngine(engine),
      images: { engine, keeper, minFreeBytes },
    }),
    ...(pods === null ? [] : [startHostReaper({ ...owned, hostId, holder: resourcesOfCluster(pods.cluster) })]),
  ]
  return {
    workers: [...placementWorkers(machine, environment), ownSandboxesWorker(machine, environment, between)],
    broken: membership.broken,
    beginStop: () => door.stop(),
    async dispose() {
      await membership.stop()
      letGo()
      await Promise.all(reapers.map((reaper) => reaper.stop()))
    },
  }
}

type Machine = Awaited<ReturnType<typeof openMachine>>

/** Opens the engine of this machine together with the parts that both workers share: the guards of its images and sandboxes. */
async function openMachine(environment: WorkerEnvironment, connection: NativeConnection, between: Interposers) {
  const { temporal, cacheDir, sandboxRuntime, sandboxCpus, sandboxMemoryMiB } = environment
  const namespaceId = await requireNamespaceId(connection, temporal.namespace)
  const store = await connectStore(environment, between)
  const engine = await connectEngine()
  // For pods it is the name of a RuntimeClass.
  const runtime = environment.pods === null ? sandboxRuntime : null
  if (runtime !== null) await requireRuntime(engine, runtime)
  const own = hostIdentity(environment.hostId)
  const keeper = createImageKeeper({ engine, cacheDir })
  const log = (message: string, facts: Record<string, string | number>): void =>
    Runtime.instance().logger.info(message, facts)
  const docker = createDockerSandboxHost({
    engine,
    keeper,
    ...own,
    namespaceId,
    maxStarting: MAX_STARTING,
    runtime,
    log,
  })
  const pods =
    environment.pods === null
      ? null
      : await openPods({ environment, pods: environment.pods, namespaceId, graders: docker, log })
  const { hostId, hostQueue } = pods ?? own
  const admission = createAdmission({
    capacity:
      environment.pods === null
        ? { cpus: sandboxCpus ?? engine.cpus, memoryMiB: sandboxMemoryMiB ?? engine.memoryMiB }
        : { cpus: environment.pods.cpus, memoryMiB: sandboxMemoryMiB ?? Number.POSITIVE_INFINITY },
    list: pods?.listHeld ?? (() => listHeld({ engine, namespaceId })),
  })
  const door = createHostDoor(hostId)
  const watched = {
    name: `${engine.host} on ${own.hostId}`,
    pulse: createEnginePulse({ ping: () => engine.docker.ping() }),
  }
  const host = between.sandbox(pods?.host ?? docker)
  const tests = watchSandbox({ host, engine: watched })
  const shared = {
    store,
    sandbox: admitSandboxes({
      // Tests run in containers of this machine, wherever the sandbox runs.
      host:
        pods === null
          ? tests
          : { ...watchSandbox({ host, engine: pods.watched }), grade: tests.grade, audit: tests.audit },
      admission,
      hostId,
      door,
    }),
    recipes: createRecipeReader(store),
    tasks: createTaskReader(store),
  }
  const look = createHostLook({ engine, namespaceId, admission, door })
  const engineHostId = own.hostId
  return {
    engine,
    watched,
    keeper,
    docker,
    pods,
    admission,
    hostId,
    hostQueue,
    engineHostId,
    namespaceId,
    shared,
    door,
    look,
  }
}

/** Maximum number of sandboxes that wait for an image, a place or a start. On a full host only a few wait; the others stay in the
 *  queue for the first host with a place. */
const MAX_OPENING = 8

/** Placements have their own queue. On a full host they wait, and nothing that a waiting sandbox depends on may queue behind them. */
function placementWorkers(
  { engine, watched, keeper, hostId, shared, door, admission }: Machine,
  environment: WorkerEnvironment,
) {
  const { store } = shared
  const { cacheDir, leaseMs } = environment
  const ensureImage = watchImages({
    engine: watched,
    ensureImage: createImageProvider({ engine, cacheDir, keeper, log: (line) => console.error(line) }),
  })
  const activities = createSandboxActivities({
    ...shared,
    hostId,
    leaseMs,
    door,
    suites: createSuiteReader(store),
    plans: createPlanReader(store),
    ensureImage,
    finder: watchFinder({ engine: watched, finder: createImageFinder({ engine }) }),
    verifyImage: watchVerifier({
      engine: watched,
      verifyImage: createImageVerifier({ engine, keeper, store, ensureImage }),
    }),
  })
  // The waiting placement reports in its heartbeats what it waits for. Further ones stay in the queue, for a host that has room
  // earlier or joins later.
  const isFull = (): boolean => admission.waiting() > 0
  const pauseMs = (opening: number): number => placementPauseMs(admission.share(), opening)
  return [
    {
      taskQueue: QUEUES.placement,
      tuner: activitiesOnly(createWorkSlots({ slots: MAX_OPENING, door, isFull, pauseMs })),
      // One poll at a time, so that a drained host has at most one open, and the pause spreads placements over hosts.
      activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 1 } as const,
      activities,
    },
    {
      taskQueue: QUEUES.sandbox,
      // An activity that waits for a grading slot occupies only an activity slot. Placements of versions without a placement queue
      // also arrive here.
      tuner: activitiesOnly(createWorkSlots({ slots: 24, door })),
      activityTaskPollerBehavior: { type: 'simple-maximum', maximum: 2 } as const,
      activities,
    },
  ]
}

/**
 * Maximum number of concurrent steps of the sandboxes that this host holds. A step lasts minutes and mostly waits for samples. If a
 * step does not start within two minutes, its episode assumes that the host is gone. No sandbox may therefore wait for the step of
 * another, and only admission limits their number.
 */
const MAX_HELD = 10_000

/** The worker for the sandboxes that this machine holds. */
export function ownSandboxesWorker(
  { hostQueue, shared, door, look }: Pick<Machine, 'hostQueue' | 'shared' | 'door' | 'look'>,
  environment: Pick<WorkerEnvironment, 'leaseMs' | 'policyUrl' | 'policyApiKey'>,
  between: Interposers,
) {
  const { recipes, store, tasks } = shared
  const policies = policyClientsOf(environment, { recipes, store }, between.policy)
  return {
    taskQueue: hostQueue,
    maxConcurrentActivityTaskExecutions: MAX_HELD,
    // Each host has few pollers, because a cluster has many hosts and the server limits long polls.
    activityTaskPollerBehavior: { type: 'autoscaling', minimum: 1, initial: 2, maximum: 4 } as const,
    activities: createHostActivities({
      ...shared,
      door,
      look,
      samplers: createSamplers({
        recipes,
        policies,
        chats: chatClientsOf(recipes),
        defuseFor: createDefuseFor({ store }),
      }),
      resolve: createSettingResolver({ tasks }),
      seedOf: turnSeed,
      now: Date.now,
      stopwatch: () => performance.now(),
      // Two renewals may be lost before the third comes too late.
      renewEveryMs: environment.leaseMs / 3,
    }),
  }
}

/** Combines the engine's id with its data directory, because old versions give the same id to both engines of one machine. */
async function engineIdentity({ docker }: Engine): Promise<string> {
  const { ID: id, DockerRootDir: root } = (await docker.info()) as { ID?: string; DockerRootDir?: string }
  return `${id ?? 'unknown'} ${root ?? ''}`.trim()
}

interface HostLookInput {
  engine: Engine
  namespaceId: string
  admission: Pick<Admission, 'look'>
  door: Pick<HostDoor, 'isOpen'>
}

/** Reports what a host holds according to its engine: sandboxes and gradings of this Temporal namespace, including those that other
 *  workers opened. */
export function createHostLook({ engine, namespaceId, admission, door }: HostLookInput): () => Promise<HostFacts> {
  const since = new Date().toISOString()
  let gradings = 0
  return async () => {
    const { sandboxes, requested, capacity, trouble } = await admission.look()
    if (trouble === null) gradings = await countGradings({ engine, namespaceId }).catch(() => gradings)
    return {
      since,
      takesWork: door.isOpen,
      sandboxes,
      gradings,
      requested: sayable(requested),
      capacity: sayable(capacity),
      trouble,
    }
  }
}

async function countGradings({ engine, namespaceId }: Pick<HostLookInput, 'engine' | 'namespaceId'>): Promise<number> {
  const all = await listSandboxes({ engine })
  return all.filter(
    ({ role, state, namespaceId: owners }) => role !== 'agent' && state !== 'ended' && owners === namespaceId,
  ).length
}

function sayable({ cpus, memoryMiB }: { cpus: number; memoryMiB: number }): HostResources {
  return { cpus, memoryMiB: Number.isFinite(memoryMiB) ? memoryMiB : null }
}
