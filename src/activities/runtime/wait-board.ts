import { AsyncLocalStorage } from 'node:async_hooks'
import type { LonghaulError } from '../../contracts/errors.ts'
import type { ActivityWait, Dependency, TransientError } from '../../contracts/waits.types.ts'

/** What one activity currently waits for. */
export interface WaitBoard {
  /** The oldest of the innermost waits; null while the activity itself works. */
  current(): ActivityWait | null
  /** The wait that ended in this error, if any. */
  failed(error: unknown): Pick<ActivityWait, 'on' | 'doing'> | null
  /** Runs work whose waits appear on this board, however deep in its calls they begin. */
  run<T>(work: () => T): T
}

export interface WaitInput {
  /** A present participle: `sampling`. */
  doing: string
  on: Dependency
  /** The wait counts as no blocker before this time, for example the deadline of a command or of tests. */
  expectedMs?: number
  /** Called at each heartbeat. Returns a problem of the dependency, or null if it is healthy. */
  inspect?: () => TransientError | null
}

/** Reports on a wait while it lasts. */
export interface WaitHandle {
  /** The dependency has made progress; `run blockers` shows the time since. @param atMs ms since 1970 */
  progressed(atMs: number): void
  /** Tells why the dependency makes no progress. Null, or progress, ends that. */
  troubled(error: LonghaulError | null): void
}

interface OpenWait {
  input: WaitInput
  sinceMs: number
  trouble: TransientError | null
  /** Number of waits that began inside this one. While they last, they are the more specific ones. */
  inner: number
}

/** The limits of a wait within one attempt at an activity. */
export interface AttemptLimits {
  signal: AbortSignal
  /** When the server ends the attempt: ms since 1970, Infinity if it does not. */
  endsAtMs: number
}

/** The state that the waits of one activity share. */
interface Shared {
  limits: AttemptLimits | null
  open: Set<OpenWait>
  failure: { error: unknown; input: WaitInput } | null
}

interface Place {
  shared: Shared
  wait: OpenWait | null
}

/** Carried along every await, so that adapters and their wrappers need no reference to the activity. */
const places = new AsyncLocalStorage<Place>()

export function createWaitBoard(limits: AttemptLimits | null = null): WaitBoard {
  const shared: Shared = { limits, open: new Set(), failure: null }
  return {
    run: (work) => places.run({ shared, wait: null }, work),
    failed(error) {
      const { failure } = shared
      if (failure === null || failure.error !== error) return null
      return { on: failure.input.on, doing: failure.input.doing }
    },
    current() {
      let oldest: OpenWait | null = null
      for (const wait of shared.open) {
        if (wait.inner === 0 && (oldest === null || wait.sinceMs < oldest.sinceMs)) oldest = wait
      }
      return oldest === null ? null : describe(oldest)
    },
  }
}

/** Reports what is awaited while `work` runs. Outside an activity it only runs the work. */
export async function waitingFor<T>(input: WaitInput, work: (handle: WaitHandle) => Promise<T>): Promise<T> {
  const place = places.getStore()
  const wait: OpenWait = { input, sinceMs: Date.now(), trouble: null, inner: 0 }
  const handle: WaitHandle = {
    progressed: (atMs) => {
      wait.sinceMs = Math.max(wait.sinceMs, atMs)
      wait.trouble = null
    },
    troubled: (error) => {
      if (error === null) wait.trouble = null
      else addTrouble(wait, error)
    },
  }
  if (place === undefined) return work(handle)
  const { shared, wait: outer } = place
  shared.open.add(wait)
  if (outer !== null) outer.inner += 1
  try {
    return await places.run({ shared, wait }, () => work(handle))
  } catch (error) {
    // The innermost wait is the most specific; the outer ones see the same error.
    if (shared.failure?.error !== error) shared.failure = { error, input }
    throw error
  } finally {
    shared.open.delete(wait)
    if (outer !== null) outer.inner -= 1
  }
}

/** The limits of the current activity; null outside one. */
export function attemptLimits(): AttemptLimits | null {
  return places.getStore()?.shared.limits ?? null
}

/** Records a problem on the caller's innermost wait, for dependencies that are retried without a failure. */
export function reportTransientError(error: LonghaulError): void {
  const wait = places.getStore()?.wait
  if (wait !== undefined && wait !== null) addTrouble(wait, error)
}

function addTrouble(wait: OpenWait, { code, message }: LonghaulError): void {
  const { trouble } = wait
  wait.trouble =
    trouble?.code === code
      ? { ...trouble, message, tries: trouble.tries + 1 }
      : { code, message, sinceMs: wait.sinceMs, tries: 1 }
}

function describe({ input, sinceMs, trouble }: OpenWait): ActivityWait {
  return {
    doing: input.doing,
    on: input.on,
    sinceMs,
    expectedUntilMs: input.expectedMs === undefined ? null : sinceMs + input.expectedMs,
    trouble: input.inspect?.() ?? trouble,
  }
}
