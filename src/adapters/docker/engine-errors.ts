import { LonghaulError } from '../../contracts/errors.ts'

/** HTTP status of an engine's refusal, null for anything else (a broken connection, say). */
export function statusOf(error: unknown): number | null {
  const status = (error as { statusCode?: unknown } | null)?.statusCode
  return typeof status === 'number' ? status : null
}

export function isStatus(error: unknown, ...statuses: number[]): boolean {
  const status = statusOf(error)
  return status !== null && statuses.includes(status)
}

/** 404: it is gone. 409 on removal: somebody else is removing it already. */
export function ignoreGone(error: unknown): void {
  if (!isStatus(error, 404, 409)) throw error
}

export interface EngineErrorContext {
  doing: string
  details: Record<string, string | number | boolean | null>
}

/** The one door from an engine error to ours. No status means that the connection failed, not the request. */
export function toSandboxError(error: unknown, { doing, details }: EngineErrorContext): LonghaulError {
  if (error instanceof LonghaulError) return error
  const status = statusOf(error)
  const reason = error instanceof Error ? error.message : String(error)
  const code = status === 404 ? 'Sandbox.Lost' : 'Sandbox.EngineUnavailable'
  return new LonghaulError({
    code,
    message: `Docker engine: ${doing} failed: ${reason}`,
    details: { ...details, status },
    cause: error,
  })
}
