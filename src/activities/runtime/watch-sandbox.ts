import type { SandboxHost } from '../../contracts/sandbox.types.ts'
import type { Trouble } from '../../contracts/waits.types.ts'
import type { EnsureImage } from '../episode/open-sandbox.ts'
import type { VerifyImage } from '../gate/verify-image.ts'
import { waitingFor } from './wait-board.ts'

/** Whether a sandbox engine is alive while an activity waits for it. */
export interface Pulse {
  /** Last answer, ms since 1970, where a question has gone unanswered since; null while it answers. */
  silentSinceMs(): number | null
  /** Asks the engine from time to time while `work` lasts. */
  during<T>(work: () => Promise<T>): Promise<T>
}

/** A command that ignores TERM is killed five seconds after its deadline; the rest is for a machine under load. */
const COMMAND_SLACK_MS = 15_000
/** Around the tests: start, application of the patch, reading of the log. */
const GRADING_SLACK_MS = 60_000
/** Its own, behind the twenty others that this host may have accepted, four at once. */
const GRADING_ROUNDS = 6

/** Containers start a few at a time, and under load each takes its while. */
const OPENING_MS = 2 * 60_000
/** Over every changed file of a big repository. */
const HASHING_MS = 2 * 60_000
/** Of a real task it may have to come over the network. */
const IMAGE_MS = 10 * 60_000

export interface WatchedEngine {
  /** Address and host. */
  name: string
  pulse: Pulse
}

/**
 * A sandbox host whose operations are named in the heartbeats of the activity that waits for them. Commands and tests may
 * rightly take long, so an engine that has stopped answering is told from a slow command by asking the engine itself.
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
    initialState: (sandbox, signal) =>
      during(`reading the state of ${sandbox.name}`, () => host.initialState(sandbox, signal)),
    treeHash: (sandbox, after, signal) =>
      during(`hashing the files of ${sandbox.name}`, () => host.treeHash(sandbox, after, signal), HASHING_MS),
    // Beside the work that is waited for, never instead of it.
    renew: (sandbox, signal) => host.renew(sandbox, signal),
    capture: (sandbox, request, signal) =>
      during(`capturing the patch of ${sandbox.name}`, () => host.capture(sandbox, request, signal)),
    close: (sandbox) => during(`closing ${sandbox.name}`, () => host.close(sandbox)),
    grade: (input, signal) =>
      during(
        'running the tests',
        () => host.grade(input, signal),
        GRADING_ROUNDS * (input.timeoutMs + (input.audit?.tests?.timeoutMs ?? 0) + GRADING_SLACK_MS),
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

/** The same for looks into them. */
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

function waitingForEngine<T>(
  { name, pulse }: WatchedEngine,
  wait: { doing: string; expectedMs?: number },
  work: () => Promise<T>,
): Promise<T> {
  const inspect = (): Trouble | null => {
    const sinceMs = pulse.silentSinceMs()
    if (sinceMs === null) return null
    const message = `The Docker engine at ${name} has not answered since ${new Date(sinceMs).toISOString()}`
    return { code: 'Sandbox.EngineUnavailable', message, sinceMs, tries: 1 }
  }
  return waitingFor({ ...wait, on: { kind: 'engine', name }, inspect }, () => pulse.during(work))
}
