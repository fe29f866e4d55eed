import { LonghaulError } from '../../../contracts/errors.ts'
import type { FailureCode } from '../../../contracts/failure-codes.ts'

/** HTTP status of an engine's refusal, null for anything else (a broken connection, say). */
export function statusOf(error: unknown): number | null {
  const status = (error as { statusCode?: unknown } | null)?.statusCode
  return typeof status === 'number' ? status : null
}

export function isStatus(error: unknown, ...statuses: number[]): boolean {
  const status = statusOf(error)
  return status !== null && statuses.includes(status)
}

/** 404: it is gone. 409 on removal: another process is removing it already. */
export function ignoreGone(error: unknown): void {
  if (!isStatus(error, 404, 409)) throw error
}

export interface EngineErrorContext {
  doing: string
  details: Record<string, string | number | boolean | null>
}

/** What Node says of a connection that did not come about or broke; a missing file has no `syscall: 'connect'`. */
const BROKEN_CONNECTION = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])

/** Whether the engine refused, fell silent or was unreachable; any other failure is not the engine's. */
function isEngineFailure(error: unknown): boolean {
  const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown }
  return statusOf(error) !== null || syscall === 'connect' || BROKEN_CONNECTION.has(String(code))
}

/** Work that asks the engine and does other things too: failures of the engine get their code, all others stay as they are. */
export async function throughEngine<T>(context: EngineErrorContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw isEngineFailure(error) ? toSandboxError(error, context) : error
  }
}

/** A full disk has one code for every operation: apart from disk limits of containers the engine has one disk. */
function codeOf(status: number | null, reason: string): FailureCode {
  if (/no space left on device|disk quota exceeded/i.test(reason)) return 'Sandbox.OutOfDisk'
  return status === 404 ? 'Sandbox.Lost' : 'Sandbox.EngineUnavailable'
}

/** The one door from an engine error to ours. No status means that the connection failed, not the request. */
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
