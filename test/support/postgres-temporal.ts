import { ensureTemporalServer, type TemporalServer } from '../../src/stack/setup/temporal-server.ts'
import { hasPostgres } from '../../src/stack/postgres/private-cluster.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { toLonghaulError } from '../../src/contracts/errors.ts'

/** The programs of a Temporal server on PostgreSQL, built if the cache lacks them, or why they are unavailable here. */
export async function findTemporalServer(): Promise<{ server: TemporalServer } | { reason: string }> {
  if (!(await hasPostgres())) return { reason: 'Temporal on PostgreSQL cannot be tested: there is no PostgreSQL' }
  const context = { signal: new AbortController().signal, log: (line: string) => process.stderr.write(`${line}\n`) }
  try {
    const { value: server } = await ensureTemporalServer({ cacheDir: stackPaths().cacheDir, context })
    return { server }
  } catch (error) {
    const { message } = toLonghaulError(error)
    // Any failure except a missing Go is a bug, so it is thrown.
    if (!message.startsWith('No Temporal server for PostgreSQL')) throw error
    return { reason: 'Temporal on PostgreSQL cannot be tested: there is no Go to build the server with' }
  }
}
