import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Container, ContainerInspectInfo } from 'dockerode'
import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import type { GradingMachine } from '../../../contracts/sandbox.types.ts'
import { endedFromInside } from '../container/container-state.ts'
import { containerName } from '../container/labels.ts'
import { containerSpec } from '../container/container-spec.ts'
import { createOrAdopt, removeContainer } from '../container/create-container.ts'
import type { Engine } from '../engine/engine.ts'
import { attach } from '../engine/exec-stream.ts'
import { packFiles } from '../engine/tar.ts'
import { requireImage } from '../images/images.ts'
import { type SandboxContext, limitsOnHost } from '../sandbox/sandbox-context.ts'
import {
  type Grading,
  type GradingAnswered,
  answerInTime,
  encodeGradeInput,
  gradeCommand,
  namePartsOf,
  stalled,
} from './grading.ts'
import { answerOn, type AnswerStream, endedByTests, failed } from './grade-output.ts'

/** Runs a script in a fresh container as its main process. There is no exec, and no process can outlive the script. The container is
 *  removed before this returns. If the engine fails to, the reaper removes it later and the answer counts: graded code can make its own
 *  removal last long.
 *  @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.Stalled`, `Sandbox.OutOfDisk`, `Grading.Failed`, `Grading.Ended` */
export async function answerOfContainer<T>(
  context: SandboxContext,
  run: Grading<T>,
  signal: AbortSignal,
): Promise<GradingAnswered<T>> {
  return context.grading.use(async () => {
    const { engine } = context
    const imageDigest = await requireImage({ engine, ...run.patch })
    const spec = specOf(context, run, imageDigest)
    const name = spec.name ?? ''
    const mark = randomBytes(16).toString('hex')
    const streams: AnswerStream<T>[] = []
    /** Its id, as soon as it has one: a later attempt at the same grading may take over its name. */
    let own = name
    let watching = Promise.resolve()
    try {
      const { text, large } = await encodeGradeInput({ ...run, mark })
      const { container, stream, startedAtMs, startMs } = await context.starting.use(async () => {
        const container = await createAnew(engine, spec)
        own = container.id
        if (large.length > 0) await container.putArchive(await packFiles(large), { path: '/' })
        const stream = answerOn(await attach(container), text, run.read(mark))
        streams.push(stream)
        const startedAtMs = Date.now()
        const startMs = performance.now()
        await container.start()
        watching = startWatch(context, name)
        return { container, stream, startedAtMs, startMs }
      }, signal)
      const timeoutMs = run.timeoutMs + context.gradingSlackMs
      const answer = await answerInTime(stream, {
        timeoutMs,
        signal,
        overdue: async () => {
          await requireAtWork(container, timeoutMs)
          return run.overdue()
        },
        lost: () => withoutResult(engine, container),
      })
      const machine = machineOf(engine, spec, { startedAtMs, endedAtMs: Date.now() })
      await watching
      await requireRoom(context, name)
      return { answer, startMs, imageDigest, machine }
    } catch (error) {
      await watching
      const limit = asDiskLimit(context, name)
      if (limit !== null) throw limit
      // Without room, the grader itself may have failed to write.
      if (isLonghaulError(error) && error.code.startsWith('Grading.')) await requireRoom(context, name)
      throw error
    } finally {
      for (const stream of streams) stream.close()
      context.watch.remove(name)
      await removeContainer({ engine, name: own })
        .catch((error: unknown) => {
          context.log('grading: container not removed', {
            name,
            why: error instanceof Error ? error.message : String(error),
          })
        })
        .finally(() => context.cpus.give(name))
    }
  }, signal)
}

/** Graded code may write and take as much as an agent. If the container cannot be watched, it is graded anyway. */
async function startWatch({ watch, log }: SandboxContext, name: string): Promise<void> {
  await watch.add(name).catch((error: unknown) => {
    log('not watched', { sandbox: name, why: error instanceof Error ? error.message : String(error) })
  })
}

/** Returns null if the container was not killed for what it wrote. */
function asDiskLimit({ watch }: SandboxContext, name: string): LonghaulError | null {
  try {
    watch.requireWithin(name)
    return null
  } catch (error) {
    return endedByTests((error as LonghaulError).message)
  }
}

/** Tests that others' files left no room fail, whatever the patch is worth. Only a container that is watched is known to be such. @throws LonghaulError `Sandbox.OutOfDisk` */
async function requireRoom({ watch, log }: SandboxContext, name: string): Promise<void> {
  const wasCrowdedOut = await watch.wasCrowdedOut(name).catch((error: unknown) => {
    log('not counted', { sandbox: name, why: error instanceof Error ? error.message : String(error) })
    return false
  })
  if (!wasCrowdedOut) return
  throw new LonghaulError({
    code: 'Sandbox.OutOfDisk',
    message: 'The disk of the host was full during a grading, whose result says nothing about the patch',
    details: { grader: name },
  })
}

function specOf(context: SandboxContext, run: Grading<unknown>, imageDigest: string) {
  const { patch: input, testTimeoutMs, timeoutMs } = run
  const name = containerName(namePartsOf(run))
  return containerSpec({
    engine: context.engine,
    name,
    image: input.image,
    command: gradeCommand(Math.ceil(testTimeoutMs / 1000)),
    workingDir: input.repoDir,
    limits: limitsOnHost(context, input.limits),
    cpuset: context.cpus.take(name, input.limits.cpus),
    capabilities: 'grading',
    stdin: true,
    labels: {
      run: input.run,
      episode: input.episode,
      role: input.role,
      fence: 1,
      leaseMs: input.leaseMs,
      // The lease is never renewed. The container's own deadline ends it, after which no activity waits for it.
      maxLifeMs: Math.max(input.leaseMs, timeoutMs + context.gradingSlackMs),
      owner: input.owner,
      ownerRun: input.ownerRun,
      namespaceId: context.namespaceId,
      host: context.hostId,
      imageDigest,
    },
  })
}

/** Grading keeps nothing between attempts, so a container of an earlier attempt is removed and never adopted. */
async function createAnew(engine: Engine, spec: ReturnType<typeof specOf>): Promise<Container> {
  const first = await createOrAdopt({ engine, spec })
  if (first.existing === null) return first.container
  await removeContainer({ engine, name: spec.name ?? '' })
  return (await createOrAdopt({ engine, spec })).container
}

/** Distinguishes a lost engine from a lost container. */
async function withoutResult(engine: Engine, container: Container): Promise<LonghaulError> {
  const message = 'The grading container ended without a result'
  const { Id: id, State: state } = await container.inspect()
  // The stream ends shortly before the engine notices the exit. If the stream breaks while the container runs, the engine is at fault.
  const seen = state.Running ? await endOf(container) : state
  const isOwnDoing = seen !== null && (await endedFromInside(engine, { id, state: seen }, 0))
  return isOwnDoing ? endedByTests(message) : failed(message)
}

async function endOf(container: Container): Promise<ContainerInspectInfo['State'] | null> {
  for (let look = 0; look < 20; look += 1) {
    await sleep(100)
    const { State: state } = await container.inspect()
    if (!state.Running) return state
  }
  return null
}

/**
 * Checks a container that did not end by its own deadline. If it still runs, its tests, which may be root there, have killed their own
 * watchdog, so they are over their limit like any others. A paused container or a silent engine says nothing about the tests.
 */
async function requireAtWork(container: Container, timeoutMs: number): Promise<void> {
  const { State: state } = await container.inspect()
  if (!state.Running || state.Paused) throw stalled(container.id.slice(0, 12), timeoutMs)
}

function machineOf(
  engine: Engine,
  { HostConfig }: ReturnType<typeof specOf>,
  times: { startedAtMs: number; endedAtMs: number },
): GradingMachine {
  return {
    engine: engine.version,
    cgroupVersion: engine.facts.cgroupVersion,
    cpuset: HostConfig?.CpusetCpus ?? '',
    memoryMiB: (HostConfig?.Memory ?? 0) / (1024 * 1024),
    ...times,
  }
}
