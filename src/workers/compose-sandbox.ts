import type { NativeConnection } from '@temporalio/worker'
import { createHostActivities } from './host-activities.ts'
import { createSettingResolver, turnSeed } from '../activities/episode/episode-spec.ts'
import { createDefuseFor, createSamplers } from '../activities/episode/samplers.ts'
import { createSandboxActivities } from './sandbox-activities.ts'
import { createHostDoor, type HostDoor } from '../activities/runtime/host-door.ts'
import { joinAsHost } from './host-membership.ts'
import { activitiesOnly, createWorkSlots, placementPauseMs } from './work-slots.ts'
import { createPlanReader } from '../activities/grading/stored-plan.ts'
import { createRecipeReader, createSuiteReader, createTaskReader } from '../activities/runtime/stored-records.ts'
import { admitSandboxes } from '../activities/runtime/admit-sandboxes.ts'
import { createAdmission, type Admission } from '../adapters/docker/sandbox/admission.ts'
import { resourcesOfCluster } from '../adapters/kubernetes/list-pods.ts'
import { LONGEST_STEP_SILENCE_S } from '../contracts/step-heartbeat.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import type { Composed } from './compose-role.ts'
import { connectStore, chatClientsOf, policyClientsOf, type Interposers, requireNamespaceId } from './connect.ts'
import { startHostReaper } from './reaper.ts'
import { imagesOf, logInfo, openPlaces, placeOf, reapedBy } from './sandbox-places.ts'
import type { WorkerEnvironment } from './worker-environment.ts'
import type { HostFacts, HostResources } from '../contracts/hosts.types.ts'

/** Composes three workers in one process: placement and grading for any host, and the queue of this host's own sandboxes. */
export async function composeSandbox(
  environment: WorkerEnvironment,
  connection: NativeConnection,
  between: Interposers,
): Promise<Composed> {
  const machine = await openMachine(environment, connection, between)
  const { places, admission, hostId, hostQueue, identity, namespaceId, shared, door } = machine
  const { pods, local } = places
  const { minFreeBytes, temporal } = environment
  const { namespace } = temporal
  const letGo = (): void => {
    door.stop()
    admission.dispose()
    pods?.host.dispose()
    local?.docker.dispose()
    local?.keeper.dispose()
  }
  const membership = await joinAsHost({
    temporal,
    host: hostId,
    holder: { queue: hostQueue, engine: identity },
    door,
    log: logInfo,
  }).catch((error: unknown): never => {
    letGo()
    throw error
  })
  const owned = { namespaceId, namespace, connection, store: shared.store }
  const reapers = [
    ...(local === null ? [] : [startHostReaper({ ...owned, ...reapedBy(local, minFreeBytes) })]),
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

/** Opens where sandboxes and graders run, together with the parts that both workers share: the guards of images and sandboxes. */
async function openMachine(environment: WorkerEnvironment, connection: NativeConnection, between: Interposers) {
  const { temporal } = environment
  const namespaceId = await requireNamespaceId(connection, temporal)
  const store = await connectStore(environment, between)
  const places = await openPlaces(environment, namespaceId)
  const place = placeOf(environment, { places, namespaceId, between })
  const { host, hostId, hostQueue, identity, capacity } = place
  const admission = createAdmission({ capacity, list: place.listHeld })
  const door = createHostDoor(hostId)
  const shared = {
    store,
    sandbox: admitSandboxes({ host, admission, hostId, door }),
    recipes: createRecipeReader(store),
    tasks: createTaskReader(store),
  }
  const look = createHostLook({ countGradings: place.countGradings, admission, door })
  return { places, admission, hostId, hostQueue, identity, namespaceId, shared, door, look }
}

/** Maximum number of sandboxes that wait for an image, a place or a start. On a full host only a few wait; the others stay in the
 *  queue for the first host with a place. */
const MAX_OPENING = 8

/** Placements have their own queue. On a full host they wait, and nothing that a waiting sandbox depends on may queue behind them. */
function placementWorkers({ places, hostId, shared, door, admission }: Machine, environment: WorkerEnvironment) {
  const { store } = shared
  const activities = createSandboxActivities({
    ...shared,
    hostId,
    leaseMs: environment.leaseMs,
    door,
    suites: createSuiteReader(store),
    plans: createPlanReader(store),
    ...imagesOf(places, { store, cacheDir: environment.cacheDir }),
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
    // The SDK's own limit of one minute would send more than the timeout of a step asks for.
    maxHeartbeatThrottleInterval: LONGEST_STEP_SILENCE_S * 1_000,
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

interface HostLookInput {
  countGradings: () => Promise<number>
  admission: Pick<Admission, 'look'>
  door: Pick<HostDoor, 'isOpen'>
}

/** Reports what a host holds according to its engine or cluster: sandboxes and gradings of this Temporal namespace, including those that other
 *  workers opened. */
export function createHostLook({ countGradings, admission, door }: HostLookInput): () => Promise<HostFacts> {
  const since = new Date().toISOString()
  let gradings = 0
  return async () => {
    const { sandboxes, requested, capacity, trouble } = await admission.look()
    if (trouble === null) gradings = await countGradings().catch(() => gradings)
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

function sayable({ cpus, memoryMiB }: { cpus: number; memoryMiB: number }): HostResources {
  return { cpus, memoryMiB: Number.isFinite(memoryMiB) ? memoryMiB : null }
}
