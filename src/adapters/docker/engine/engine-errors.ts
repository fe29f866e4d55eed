/** How an engine fails: its refusals, and its silence. */
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { FailureCode } from '../../../contracts/failure-codes.ts'

/** HTTP status of an engine's refusal; null for any other error, such as a broken connection. */
export function statusOf(error: unknown): number | null {
  const status = (error as { statusCode?: unknown } | null)?.statusCode
  return typeof status === 'number' ? status : null
}

export function isStatus(error: unknown, ...statuses: number[]): boolean {
  const status = statusOf(error)
  return status !== null && statuses.includes(status)
}

/** 404: the resource is gone. 409 on removal: another process is already removing it. */
export function ignoreGone(error: unknown): void {
  if (!isStatus(error, 404, 409)) throw error
}

export interface EngineErrorContext {
  doing: string
  details: Record<string, string | number | boolean | null>
}

/** Node's codes for a connection that failed or broke. A missing file does not have `syscall: 'connect'`. */
const BROKEN_CONNECTION = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])

/** Returns whether the engine refused, was silent or was unreachable. Other failures are not the engine's. */
function isEngineFailure(error: unknown): boolean {
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown }
  return statusOf(error) !== null || syscall === 'connect' || BROKEN_CONNECTION.has(String(code))
}

/** Runs work that asks the engine among other things. Engine failures are mapped to their codes; other errors pass unchanged. */
export async function throughEngine<T>(context: EngineErrorContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isEngineFailure(error) ? toSandboxError(error, context) : error
  }
}

/** A full disk has the same code for every operation: apart from containers' disk limits, the engine has one disk. */
function codeOf(status: number | null, reason: string): FailureCode {
  if (/no space left on device|disk quota exceeded/i.test(reason)) return 'Sandbox.OutOfDisk'
  return status === 404 ? 'Sandbox.Lost' : 'Sandbox.EngineUnavailable'
}

/** Maps every engine error to a LonghaulError. An error without a status means that the connection failed, not the request. */
export function toSandboxError(error: unknown, { doing, details }: EngineErrorContext): LonghaulError {
  if (error instanceof LonghaulError) return error
  const status = statusOf(error)
  const reason = error instanceof Error ? error.message : String(error)
  const code = codeOf(status, reason)
  return new LonghaulError({
    code,
    message: `Docker engine: ${doing} failed: ${reason}`,
    details: { ...details, status },
    cause: error,
  })
}

/**
 * Waits for the end of a pull or an import. The engine answers 200 before it begins, and reports every later failure (a layer that does
 * not arrive, a full disk) as a line of its progress, which the client's own `followProgress` takes for progress.
 * @throws Error with the engine's message
 */
export async function finishProgress(progress: NodeJS.ReadableStream): Promise<void> {
  let failure: string | null = null
  const lines = createInterface({ input: progress, crlfDelay: Number.POSITIVE_INFINITY })
  // A broken connection is an error of the stream, which readline does not pass on.
  const broken = Promise.withResolvers<never>()
  progress.once('error', broken.reject)
  broken.promise.catch(() => undefined)
  const read = async (): Promise<void> => {
    for await (const line of lines) failure ??= failureIn(line)
  }
  await Promise.race([read(), broken.promise])
  if (failure !== null) throw new Error(failure)
}

/** Returns the message of a line that reports a failure; null for progress. */
function failureIn(line: string): string | null {
  if (line.trim() === '') return null
  try {
    const { error, errorDetail } = JSON.parse(line) as { error?: string; errorDetail?: { message?: string } }
    return errorDetail?.message ?? error ?? null
  } catch {
    return `expected the engine’s progress, got ${JSON.stringify(line.slice(0, 200))}`
  }
}

export interface EnginePulse {
  /** Time of the last answer, ms since 1970, if a later ping went unanswered; null while the engine answers. */
  silentSinceMs(): number | null
  /** Returns whether the engine, or this process, was silent for long at some time since then while `work` ran. */
  wasSilentSince(ms: number): boolean
  /** Pings the engine every few seconds while `work` runs; calls may overlap. */
  during<T>(work: () => Promise<T>): Promise<T>
  /** Pings at once, then every second until the engine answers. @returns whether it answers by then, ms since 1970. @throws the
   *  signal's reason */
  answersBy(untilMs: number, signal: AbortSignal): Promise<boolean>
}

const EVERY_MS = 5_000
const AGAIN_MS = 1_000
/** If a ping or a timer takes longer, the machine is overloaded, and so are its sandboxes. */
const LONG_MS = 10_000

interface EnginePulseOptions {
  /** Rejects after its own deadline if no answer arrives. */
  ping: () => Promise<unknown>
}

/**
 * Distinguishes a slow command from an engine that has stopped answering (frozen, swapped out, gone), which look alike to the caller
 * that waits for the command. The engine is pinged only while a caller waits.
 */
export function createEnginePulse({ ping }: EnginePulseOptions): EnginePulse {
  let waiting = 0
  let timer: NodeJS.Timeout | undefined
  let lastAnswerMs = Date.now()
  let isSilent = false
  let isAsking = false
  let lastSilenceMs = Number.NEGATIVE_INFINITY
  let lastTickMs = 0

  const ask = async (): Promise<void> => {
    const now = Date.now()
    if (now - lastTickMs > EVERY_MS + LONG_MS) lastSilenceMs = now
    lastTickMs = now
    if (isAsking) return
    isAsking = true
    try {
      await ping()
      isSilent = false
      lastAnswerMs = Date.now()
      if (lastAnswerMs - now > LONG_MS) lastSilenceMs = lastAnswerMs
    } catch {
      isSilent = true
      lastSilenceMs = Date.now()
    } finally {
      isAsking = false
    }
  }

  return {
    silentSinceMs: () => (isSilent ? lastAnswerMs : null),
    wasSilentSince: (ms) => lastSilenceMs >= ms,
    async answersBy(untilMs, signal) {
      for (;;) {
        const answers = await ping().then(
          () => true,
          () => false,
        )
        if (answers) return true
        lastSilenceMs = Date.now()
        const leftMs = untilMs - lastSilenceMs
        if (leftMs <= 0) return false
        await sleep(Math.min(AGAIN_MS, leftMs), undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    },
    async during(work) {
      waiting += 1
      if (waiting === 1) {
        // Without callers there were no pings, so silence is counted from now.
        if (!isSilent) lastAnswerMs = Date.now()
        lastTickMs = Date.now()
        timer = setInterval(() => void ask(), EVERY_MS)
      }
      try {
        return await work()
      } finally {
        waiting -= 1
        if (waiting === 0) {
          clearInterval(timer)
          isSilent = false
        }
      }
    },
  }
}
