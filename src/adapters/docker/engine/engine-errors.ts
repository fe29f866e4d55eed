import { createInterface } from 'node:readline'
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
