import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../contracts/errors.ts'
import type { TemporalSettings } from './temporal-settings.ts'

/** Name → type, spelled as on the server's command line and in `infra/temporal`. */
export function searchAttributes(): Record<string, string> {
  const file = new URL('../../infra/temporal/search-attributes.json', import.meta.url)
  return JSON.parse(readFileSync(file, 'utf8')) as Record<string, string>
}

/** What the client's and the worker's connections have in common here. */
interface Registry {
  withDeadline<T>(deadline: number, call: () => Promise<T>): Promise<T>
  operatorService: {
    listSearchAttributes(request: { namespace: string }): Promise<{
      customAttributes?: Record<string, unknown> | null
      systemAttributes?: Record<string, unknown> | null
    }>
  }
}

/** The names that a server's answer lacks. */
export function missingFrom({
  customAttributes,
  systemAttributes,
}: Awaited<ReturnType<Registry['operatorService']['listSearchAttributes']>>): string[] {
  const registered = { ...customAttributes, ...systemAttributes }
  return Object.keys(searchAttributes()).filter((name) => registered[name] === undefined)
}

const CALL_TIMEOUT_MS = 5_000
const PAUSE_MS = 500

interface RequireInput extends Pick<TemporalSettings, 'address' | 'namespace'> {
  connection: Registry
  /** For attributes that were registered a moment ago, which a server's caches show later. @default 0 */
  patienceMs?: number
}

/**
 * A namespace without them refuses the second task of every workflow, for ever: the run would begin and never go on. A server that
 * does not let this process list them passes.
 * @throws LonghaulError `Config.Invalid` that names the missing ones
 */
export async function requireSearchAttributes({
  connection,
  address,
  namespace,
  patienceMs = 0,
}: RequireInput): Promise<void> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    const missing = await list(connection, namespace)
    if (missing.length === 0) return
    if (performance.now() >= deadline) {
      throw new LonghaulError({
        code: 'Config.Invalid',
        message: `The namespace ${namespace} of the Temporal server at ${address} lacks the search attributes ${missing.join(', ')}, without which no run can go on. Register them: longhaul doctor --role control --fix, or by the server's own tools with the types in infra/temporal/search-attributes.json`,
      })
    }
    await sleep(PAUSE_MS)
  }
}

async function list(connection: Registry, namespace: string): Promise<string[]> {
  try {
    const call = () => connection.operatorService.listSearchAttributes({ namespace })
    return missingFrom(await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, call))
  } catch {
    return []
  }
}
