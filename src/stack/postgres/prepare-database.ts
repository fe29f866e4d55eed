import type { StackPaths } from '../paths.ts'
import type { TemporalServer } from '../setup/temporal-server.ts'
import type { StepContext } from '../steps.ts'
import { keepStore, readKeptStore, type TemporalStore } from '../temporal-store.ts'
import { type DatabaseAddress, parseDatabaseUrl } from './database-address.ts'
import { describeCluster, ensureCluster, type PrivateCluster, withCluster } from './private-cluster.ts'
import { prepareSchema } from './schema.ts'

export interface PreparedDatabase {
  address: DatabaseAddress
  /** Null for an external database. */
  cluster: PrivateCluster | null
}

interface PrepareDatabaseInput {
  paths: StackPaths
  store: TemporalStore & { kind: 'postgres' }
  server: TemporalServer
  context: StepContext
}

/** Prepares a database for the Temporal server, and stops what it started for that.
 *  @throws LonghaulError `Config.Invalid`, `Stack.SetupFailed` */
export async function prepareDatabase(input: PrepareDatabaseInput): Promise<{ value: PreparedDatabase; did: string }> {
  const { paths, store, server, context } = input
  const { sqlTool, version } = server
  if (store.url !== null) {
    const address = parseDatabaseUrl(store.url)
    // On every start: others may have changed an external database, and this proves that we may use it.
    await prepareSchema({ sqlTool, address, context })
    await keepStore(paths, store, version)
    return { value: { address, cluster: null }, did: address.title }
  }
  const cluster = await describeCluster(paths)
  const { address } = cluster
  // Recorded before the first file: a stack that is interrupted here keeps this store.
  const kept = await readKeptStore(paths)
  await keepStore(paths, store, kept?.schema ?? null)
  const isNew = await ensureCluster({ cluster, context })
  if (!isNew && kept?.schema === version) return { value: { address, cluster }, did: address.title }
  context.log(`${isNew ? 'creating' : 'migrating'} the database of Temporal ${version}`)
  await withCluster({ cluster, context }, () => prepareSchema({ sqlTool, address, context }))
  await keepStore(paths, store, version)
  return { value: { address, cluster }, did: `${address.title}, schema of ${version}` }
}
