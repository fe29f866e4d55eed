import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SandboxHost } from '../../../contracts/sandbox.types.ts'
import { attributeLoss } from '../container/container-state.ts'
import { createCpuPool } from '../container/cpu-pool.ts'
import { type SandboxContext, createContainerWatch } from './sandbox-context.ts'
import { toSandboxError } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { auditPatch } from '../grader/audit-patch.ts'
import { gradePatch } from '../grader/grade-patch.ts'
import { type Grader, GRADING_SLACK_MS } from '../grader/grading.ts'
import { answerOfContainer } from '../grader/grading-container.ts'
import { createImageKeeper, type ImageKeeper } from '../images/image-keeper.ts'
import { createSandboxContainer } from './open-sandbox.ts'
import { removeContainer } from '../container/create-container.ts'
import { createRunnerOperations, createRunnerPool } from './runner-pool.ts'
import { createRelayPool, type RelayPoolOptions } from './relay/relay-pool.ts'
import { createContainerAccess } from './container-access.ts'
import { openRunnerExec } from './runner-connection.ts'
import { createSlots } from '../../../platform/limiter.ts'

interface DockerSandboxHostOptions {
  engine: Engine
  /** Identifies the machine and its boot; written into labels. */
  hostId: string
  hostQueue: string
  /** Shared with the preparation and eviction of images. @default a separate one in the temporary folder */
  keeper?: ImageKeeper
  /** Identity of the Temporal namespace of the owners. Without it, only its maximum life ends a container.
   *  @default '' */
  namespaceId?: string
  /** Maximum number of containers that start concurrently. @default 4 */
  maxStarting?: number
  /** Maximum number of containers that grade concurrently. @default 4 */
  maxGrading?: number
  /** How long a grading container may stay silent after its own deadline. @default GRADING_SLACK_MS */
  gradingSlackMs?: number
  /** The reaper removes a container older than this, even while its owner runs. @default 6 hours */
  maxLifeMs?: number
  /** OCI runtime of containers whose recipe names none. @default the engine's own */
  runtime?: string | null
  /** Logs refused connections of sandboxes with a network. @default not logged */
  log?: RelayPoolOptions['log']
  /** How the proxies of sandboxes resolve names and connect. @default the host's name server and TCP */
  network?: Omit<RelayPoolOptions, 'exec' | 'log'>
}

export interface DockerSandboxHost extends SandboxHost {
  readonly context: SandboxContext
  /** Closes the connections of this process. Sandboxes keep running, and any later host finds them again. */
  dispose(): void
}

export function createDockerSandboxHost(options: DockerSandboxHostOptions): DockerSandboxHost {
  const {
    engine,
    hostId,
    hostQueue,
    keeper = createImageKeeper({ engine: options.engine, cacheDir: join(tmpdir(), 'longhaul-images') }),
    namespaceId = '',
    maxStarting = 4,
    maxGrading = 4,
    gradingSlackMs = GRADING_SLACK_MS,
    maxLifeMs = 6 * 3_600_000,
    runtime = null,
    log = () => undefined,
    network = {},
  } = options
  const runners = createRunnerPool(createContainerAccess({ engine }))
  const relays = createRelayPool({ exec: (name, command) => openRunnerExec(engine, name, command), log, ...network })
  const cpus = createCpuPool({ cpus: engine.cpus })
  const watch = createContainerWatch({ engine, log })
  const context: SandboxContext = {
    engine,
    keeper,
    hostId,
    hostQueue,
    namespaceId,
    starting: createSlots(maxStarting),
    grading: createSlots(maxGrading),
    gradingSlackMs,
    runners,
    relays,
    cpus,
    watch,
    log,
    runtime,
    maxLifeMs,
  }

  const named = async <T>(
    doing: string,
    name: string,
    signal: AbortSignal | null,
    work: () => Promise<T>,
  ): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      // A cancelled caller must receive its own reason and not an engine failure.
      if (signal?.aborted === true && error === signal.reason) throw error
      watch.requireWithin(name)
      throw toSandboxError(error, { doing, details: { name } })
    }
  }

  /**
   * Wraps operations on an open sandbox, and attributes a loss to the agent or to the host. A sandbox that the disk watch has killed is
   * asked for nothing: a request would start it again, beyond its limit.
   */
  const inside = <T>(doing: string, name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> =>
    named(doing, name, signal, async () => {
      watch.requireWithin(name)
      try {
        const result = await work()
        // It may have been killed and started again in the middle of the work.
        watch.requireWithin(name)
        return result
      } catch (error) {
        throw await attributeLoss(engine, name, error, watch.measure)
      }
    })

  const grader: Grader = (grading, signal) => answerOfContainer(context, grading, signal)

  return {
    context,
    open: (input, signal) =>
      named('opening a sandbox', input.episode, signal, async () => {
        const sandbox = await createSandboxContainer(context, input, signal)
        await watch.add(sandbox.name)
        return sandbox
      }),
    ...createRunnerOperations({
      runners,
      relays,
      log,
      around: inside,
      // Called before every turn, because another process may have opened the sandbox.
      beforeTurn: watch.add,
    }),
    close: ({ name }) =>
      named('closing a sandbox', name, null, async () => {
        runners.disconnect(name)
        relays.disconnect(name)
        watch.remove(name)
        await removeContainer({ engine, name })
        cpus.give(name)
      }),
    grade: (input, signal) => named('grading', input.episode, signal, () => gradePatch(grader, input, signal)),
    audit: (input, signal) => named('auditing', input.episode, signal, () => auditPatch(grader, input, signal)),
    dispose() {
      watch.dispose()
      runners.dispose()
      relays.dispose()
    },
  }
}
