import { LonghaulError } from '../../contracts/errors.ts'
import { oneLine } from '../../domain/hostile-text.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import { remedyFor } from './remedies.ts'

/** A refusal by an API server, in the server's own words. */
export class ClusterRefusal extends Error {
  readonly status: number
  /** For example `NotFound`, `AlreadyExists`, `Forbidden`; empty if a proxy in between refused. */
  readonly reason: string

  constructor(status: number, body: string) {
    const { reason = '', message = body.slice(0, 300) } = statusObject(body)
    super(message)
    this.status = status
    this.reason = reason
  }
}

/** An answer that no API server gives, such as a page or a redirect to one. */
export class ForeignAnswer extends Error {
  constructor(status: number) {
    super(`what answers is not the Kubernetes API (${status})`)
  }
}

function statusObject(body: string): { reason?: string; message?: string } {
  try {
    return JSON.parse(body) as { reason?: string; message?: string }
  } catch {
    return {}
  }
}

export function isRefused(error: unknown, ...statuses: number[]): error is ClusterRefusal {
  return error instanceof ClusterRefusal && statuses.includes(error.status)
}

/** Returns null if the server refused with one of the statuses, which mean that the object is gone or already exists. */
export async function unlessRefused<T>(statuses: readonly number[], asked: Promise<T>): Promise<T | null> {
  try {
    return await asked
  } catch (error) {
    if (isRefused(error, ...statuses)) return null
    throw error
  }
}

export interface ClusterErrorContext {
  doing: string
  details: Record<string, string | number | boolean | null>
}

/** Maps every error of a cluster to a LonghaulError. */
export function toClusterError(error: unknown, { doing, details }: ClusterErrorContext): LonghaulError {
  if (error instanceof LonghaulError) return error
  const said = sayingOf(error)
  const status = error instanceof ClusterRefusal ? error.status : null
  return new LonghaulError({
    code: codeOf(status, said),
    message: `Kubernetes: ${doing} failed: ${said}${remedyFor(said, 'sandbox')}`,
    details: { ...details, status },
    cause: error,
  })
}

function codeOf(status: number | null, said: string): FailureCode {
  if (/RuntimeClass|runtimeclasses/.test(said) && /not found/i.test(said)) return 'Sandbox.RuntimeMissing'
  return status === 404 && said.startsWith('pods ') ? 'Sandbox.Lost' : 'Sandbox.EngineUnavailable'
}

/** `fetch` describes a failed connection only in the error's cause. */
function sayingOf(error: unknown): string {
  if (error instanceof ClusterRefusal) return `${error.message}${error.reason === '' ? '' : ` (${error.reason})`}`
  if (!(error instanceof Error)) return String(error)
  const said = error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
  // OpenSSL's reason stands between a number of its own and a file of its sources.
  return oneLine(said.replace(/(?:[0-9A-F]+:)?error:[0-9A-F]+:([^:]*):[^:]*:([^:]+)(?::.*)?$/s, '$1: $2'), 300)
}
