import { LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'

/** What an API server refused, in its own words. */
export class ClusterRefusal extends Error {
  readonly status: number
  /** As `NotFound`, `AlreadyExists`, `Forbidden`; empty where something in between refused. */
  readonly reason: string

  constructor(status: number, body: string) {
    const { reason = '', message = body.slice(0, 300) } = statusObject(body)
    super(message)
    this.status = status
    this.reason = reason
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

/** Null where the server refused with one of the statuses: what is asked for is gone, or there already. */
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

/** The one door from an error of a cluster to ours. */
export function toClusterError(error: unknown, { doing, details }: ClusterErrorContext): LonghaulError {
  if (error instanceof LonghaulError) return error
  const said = sayingOf(error)
  const remedy = REMEDIES.find(([pattern]) => pattern.test(said))?.[1]
  const status = error instanceof ClusterRefusal ? error.status : null
  return new LonghaulError({
    code: codeOf(status, said),
    message: `Kubernetes: ${doing} failed: ${said}${remedy === undefined ? '' : ` → ${remedy}`}`,
    details: { ...details, status },
    cause: error,
  })
}

function codeOf(status: number | null, said: string): FailureCode {
  if (/RuntimeClass|runtimeclasses/.test(said) && /not found/i.test(said)) return 'Sandbox.RuntimeMissing'
  return status === 404 && said.startsWith('pods ') ? 'Sandbox.Lost' : 'Sandbox.EngineUnavailable'
}

/** Of a failed connection `fetch` says nothing but its cause does. */
function sayingOf(error: unknown): string {
  if (error instanceof ClusterRefusal) return `${error.message}${error.reason === '' ? '' : ` (${error.reason})`}`
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

/** What a refusal says, and what its reader can do about it. The first that fits counts. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/namespaces? "[^"]*" not found/, 'create the namespace, or correct LONGHAUL_KUBERNETES_NAMESPACE'],
  [/exceeded quota/, 'raise the quota of the namespace, or ask for less in sandbox.request and sandbox.limits'],
  [
    /violates PodSecurity/,
    'let the namespace enforce the pod security standard baseline: a sandbox needs the capabilities that docs/cluster.md lists',
  ],
  [/\(Forbidden\)/, 'give the account of the sandbox worker the rights that docs/cluster.md lists, in this namespace'],
  [
    /\(Unauthorized\)|provide credentials/,
    'the credentials of the sandbox worker are wrong or have expired: renew the kubeconfig that KUBECONFIG names',
  ],
  [
    /x509|certificate|tls|self-signed|SSL/i,
    'the cluster and the kubeconfig that KUBECONFIG names do not trust each other: a certificate is of another authority or has expired',
  ],
  [/ECONNREFUSED|ENOTFOUND|EHOSTUNREACH/, 'the address in the kubeconfig that KUBECONFIG names does not answer'],
]
