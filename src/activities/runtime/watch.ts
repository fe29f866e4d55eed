import type { SandboxHost } from '../../contracts/sandbox.types.ts'
import type { TransientError } from '../../contracts/waits.types.ts'
import type { EnsureImage } from '../episode/open-sandbox.ts'
import type { ImageFinder } from '../gate/check-images.ts'
import type { VerifyImage } from '../gate/verify-image.ts'
import { wrapStore } from '../../adapters/artifacts/store-rules.ts'
import { attemptLimits, waitingFor, reportTransientError } from './wait-board.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { isLonghaulError, type LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { ChatClient, PolicyClient } from '../../contracts/policy.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'

/** Reports whether a sandbox engine is alive while an activity waits for it. */
interface Pulse {
  /** Time of the last answer, ms since 1970, if a later ping went unanswered; null while the engine answers. */
  silentSinceMs(): number | null
  /** Pings the engine at intervals while `work` runs. */
  during<T>(work: () => Promise<T>): Promise<T>
  /** Returns whether the engine answers by then, ms since 1970. @throws the signal's reason */
  answersBy(untilMs: number, signal: AbortSignal): Promise<boolean>
}

/** A command that ignores TERM is killed five seconds after its deadline; the rest is slack for a loaded machine. */
const COMMAND_SLACK_MS = 15_000
/** Time around the tests: start, application of the patch, reading of the log. */
const GRADING_SLACK_MS = 60_000
/** Expected rounds: this host may have accepted twenty other gradings, and runs four concurrently. */
const GRADING_ROUNDS = 6

/** Containers start a few at a time, and each takes longer under load. */
const OPENING_MS = 2 * 60_000
/** The hash covers every changed file of a large repository. */
const HASHING_MS = 2 * 60_000
/** A package update of the engine takes a minute, and a restart of its machine a few minutes. */
const ENGINE_RESTART_MS = 5 * 60_000
/** The image of a real task may have to be pulled. */
const IMAGE_MS = 10 * 60_000

export interface WatchedEngine {
  /** Address and host. */
  name: string
  pulse: Pulse
}

/**
 * A sandbox host whose operations appear in the heartbeats of the activity that waits for them. Commands and tests may legitimately
 * take long, so pings distinguish a silent engine from a slow command.
 */
export function watchSandbox({ host, engine }: { host: SandboxHost; engine: WatchedEngine }): SandboxHost {
  const during = <T>(doing: string, work: () => Promise<T>, expectedMs?: number): Promise<T> =>
    waitingForEngine(engine, { doing, ...(expectedMs === undefined ? {} : { expectedMs }) }, work)
  return {
    open: (input, signal) => during('opening a sandbox', () => host.open(input, signal), OPENING_MS),
    runTurn: (sandbox, request, signal) =>
      during(
        `running the command of turn ${request.turn} in ${sandbox.name}`,
        () => host.runTurn(sandbox, request, signal),
        request.timeoutMs + COMMAND_SLACK_MS,
      ),
    takeOver: (sandbox, fence, signal) =>
      during(`taking ${sandbox.name} over`, () => host.takeOver(sandbox, fence, signal)),
    initialState: (sandbox, signal) =>
      during(`reading the state of ${sandbox.name}`, () => host.initialState(sandbox, signal)),
    treeHash: (sandbox, after, signal) =>
      during(`hashing the files of ${sandbox.name}`, () => host.treeHash(sandbox, after, signal), HASHING_MS),
    // Runs beside the awaited work and is never a wait itself.
    renew: (sandbox, signal) => host.renew(sandbox, signal),
    capture: (sandbox, request, signal) =>
      during(`capturing the patch of ${sandbox.name}`, () => host.capture(sandbox, request, signal)),
    close: (sandbox) => during(`closing ${sandbox.name}`, () => host.close(sandbox)),
    grade: (input, signal) =>
      during(
        'running the tests',
        () => host.grade(input, signal),
        GRADING_ROUNDS * (input.timeoutMs + GRADING_SLACK_MS),
      ),
    audit: (input, signal) =>
      during(
        'auditing the patch',
        () => host.audit(input, signal),
        GRADING_ROUNDS * ((input.audit.tests?.timeoutMs ?? 0) + GRADING_SLACK_MS),
      ),
  }
}

/** The same for the images of a host. */
export function watchImages({ ensureImage, engine }: { ensureImage: EnsureImage; engine: WatchedEngine }): EnsureImage {
  return (task, signal) =>
    waitingForEngine(engine, { doing: `preparing image ${task.image}`, expectedMs: IMAGE_MS }, () =>
      ensureImage(task, signal),
    )
}

/** The same for checks of images. */
export function watchVerifier({
  verifyImage,
  engine,
}: {
  verifyImage: VerifyImage
  engine: WatchedEngine
}): VerifyImage {
  return (task, signal) =>
    waitingForEngine(engine, { doing: `verifying image ${task.image}`, expectedMs: IMAGE_MS }, () =>
      verifyImage(task, signal),
    )
}

/** The same for searches for images, in the engine and, through the engine, in registries. */
export function watchFinder({ finder, engine }: { finder: ImageFinder; engine: WatchedEngine }): ImageFinder {
  const during = <T>(image: string, work: () => Promise<T>): Promise<T> =>
    waitingForEngine(engine, { doing: `looking for image ${image}` }, work)
  return {
    isHere: (image, signal) => during(image, () => finder.isHere(image, signal)),
    isInRegistry: (image, signal) => during(image, () => finder.isInRegistry(image, signal)),
  }
}

function waitingForEngine<T>(
  { name, pulse }: WatchedEngine,
  wait: { doing: string; expectedMs?: number },
  work: () => Promise<T>,
): Promise<T> {
  const inspect = (): TransientError | null => {
    const sinceMs = pulse.silentSinceMs()
    if (sinceMs === null) return null
    const message = `The Docker engine at ${name} has not answered since ${new Date(sinceMs).toISOString()}`
    return { code: 'Sandbox.EngineUnavailable', message, sinceMs, tries: 1 }
  }
  return waitingFor({ ...wait, on: { kind: 'engine', name }, inspect }, () =>
    pulse.during(async () => {
      try {
        return await work()
      } catch (error) {
        if (isLonghaulError(error) && error.code === 'Sandbox.EngineUnavailable') await untilAnswered(pulse, error)
        throw error
      }
    }),
  )
}

/**
 * Waits for an engine that restarts before its failure is reported, because the attempts would otherwise be exhausted before it is
 * back. After a few minutes another host should take over.
 */
async function untilAnswered(pulse: Pulse, error: LonghaulError): Promise<void> {
  const limits = attemptLimits()
  if (limits === null) return
  reportTransientError(error)
  await pulse.answersBy(Math.min(Date.now() + ENGINE_RESTART_MS, limits.endsAtMs - LAST_TRY_MS), limits.signal)
}

interface WatchPolicyInput {
  client: PolicyClient
  url: string
  /** How long to wait for a server that serves another policy during an episode, until an operator restarts it with the right one.
   *  @default 0 */
  servedWithinMs?: number
  /** @default 10_000 */
  askEveryMs?: number
}

/** A policy client whose calls appear in the heartbeats of the activity that waits for them. */
export function watchPolicy({ client, url, servedWithinMs = 0, askEveryMs = 10_000 }: WatchPolicyInput): PolicyClient {
  const during = <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    waitingFor({ doing, on: { kind: 'policy-server', name: url } }, work)
  const onceServed = <T>(doing: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> =>
    during(doing, async () => {
      for (const untilMs = Date.now() + servedWithinMs; ; ) {
        try {
          return await work()
        } catch (error) {
          if (!isLonghaulError(error) || error.code !== 'Model.NotServed' || Date.now() >= untilMs) throw error
          reportTransientError(error)
          await sleep(askEveryMs, undefined, { signal }).catch(() => signal.throwIfAborted())
        }
      }
    })
  return {
    sample: (request, signal) =>
      onceServed(`sampling from ${request.policy}`, signal, () => client.sample(request, signal)),
    tokenize: (request, signal) => onceServed('tokenizing', signal, () => client.tokenize(request, signal)),
    load: (request, signal) => during(`loading ${request.policy.version}`, () => client.load(request, signal)),
    score: (request, signal) => during(`scoring with ${request.policy}`, () => client.score(request, signal)),
    release: (request) => during('giving leases back', () => client.release(request)),
    served: (signal) => during('asking for the served policies', () => client.served(signal)),
  }
}

/** The same for an endpoint that answers with text. */
export function watchChat({ client, url, model }: { client: ChatClient; url: string; model: string }): ChatClient {
  const during = <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    waitingFor({ doing, on: { kind: 'policy-server', name: url } }, work)
  return {
    reply: (request, signal) => during(`asking ${model}`, () => client.reply(request, signal)),
    check: (signal) => during(`asking whether ${model} can be used`, () => client.check(signal)),
  }
}

/** These failures end when an operator frees the disk or renews credentials, or when the bucket is available again. */
const STORE_TROUBLE: ReadonlySet<FailureCode> = new Set<FailureCode>(['Artifact.Unavailable', 'Artifact.OutOfDisk'])
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 15_000
/** An operation has 45 seconds, so its last try ends before the attempt does and fails with the store's name. */
const LAST_TRY_MS = 60_000

interface WatchStoreInput {
  store: ArtifactStore
  /** Name for messages. */
  name: string
  /** How long an operation is retried while the store is unavailable or full, within the limit of its attempt. @default 0 */
  patienceMs?: number
  /** @default 1000 */
  firstPauseMs?: number
}

/**
 * The store of an activity worker. Each operation appears in the heartbeats of the activity that waits for it. An operation may be
 * repeated, because writes are put-if-absent.
 */
export function watchStore({
  store,
  name,
  patienceMs = 0,
  firstPauseMs = FIRST_PAUSE_MS,
}: WatchStoreInput): ArtifactStore {
  const patiently = async <T>(work: () => Promise<T>): Promise<T> => {
    const limits = attemptLimits()
    if (limits === null) return work()
    const untilMs = Math.min(Date.now() + patienceMs, limits.endsAtMs - LAST_TRY_MS)
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return await work()
      } catch (error) {
        const mayPass = isLonghaulError(error) && STORE_TROUBLE.has(error.code)
        const leftMs = untilMs - Date.now()
        if (!mayPass || leftMs <= 0) throw error
        reportTransientError(error)
        const { signal } = limits
        await sleep(Math.min(pauseMs, leftMs), undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    }
  }
  const during = <T>(doing: string, work: () => Promise<T>): Promise<T> =>
    waitingFor({ doing, on: { kind: 'artifact-store', name } }, () => patiently(work))
  return {
    ...wrapStore(store, ({ doing, key }, work) => during(`${doing} ${key}`, work)),
    weights: {
      ...store.weights,
      readFile: (input) =>
        during(`reading ${input.name} of ${input.policy.version}`, () => store.weights.readFile(input)),
      keep: (input) => during(`keeping ${input.policy.version}`, () => store.weights.keep(input)),
    },
  }
}
