import { openArtifactStore } from '../adapters/artifacts/open-store.ts'
import { nearestName } from '../domain/near-names.ts'
import type { FoundRun, LonghaulConnection } from '../client/index.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import { namesTemporalServer } from '../platform/temporal-settings.ts'
import { stackEnvironment } from '../stack/environment.ts'
import { noteWait, notingCalls } from './output/at-work.ts'
import { stackPaths } from '../stack/paths.ts'
import { describeElsewhere, stackStatus, type StackStatus } from '../stack/stack-record.ts'

/**
 * Points this process at the local stack if the environment names no Temporal server, so that users need not export a running stack's
 * addresses. Call it before anything reads the environment.
 * @returns the state of the stack; null if the environment names a server, so that no stack was looked for
 */
export async function adoptLocalStack(env: NodeJS.ProcessEnv = process.env): Promise<StackStatus | null> {
  if (isSet(env['LONGHAUL_TEMPORAL_ADDRESS']) || namesTemporalServer(env)) return null
  const status = await stackStatus()
  if (status.state === 'down') return status
  for (const [name, value] of Object.entries(stackEnvironment(status.record.facts))) {
    if (!isSet(env[name])) env[name] = value
  }
  return status
}

/**
 * Connects to the server that the environment names, else to the stack's. @throws LonghaulError `Temporal.Unreachable`, also if
 * LONGHAUL_STACK names a stack that is not up: Temporal's default address could belong to another stack
 */
export async function connectToServer(): Promise<LonghaulConnection> {
  requireNotElsewhere(await adoptLocalStack())
  const { LONGHAUL_STACK: stack, LONGHAUL_TEMPORAL_ADDRESS: address } = process.env
  if (isSet(stack) && !isSet(address) && !namesTemporalServer(process.env)) {
    throw new LonghaulError({
      code: 'Temporal.Unreachable',
      message: `The stack ${stack}, which LONGHAUL_STACK names, is not up: start it with longhaul up, or set TEMPORAL_ADDRESS or TEMPORAL_PROFILE`,
    })
  }
  // Loaded here, because it would take more than half of the start of a command that only reads the store.
  const { connect } = await import('../client/index.ts')
  const connected = noteWait('connecting to the Temporal server')
  return connect().finally(connected)
}

/** Temporal's default address would belong to another stack, or to none. */
function requireNotElsewhere(status: StackStatus | null): void {
  if (status?.state !== 'down' || status.elsewhere === undefined) return
  throw new LonghaulError({
    code: 'Temporal.Unreachable',
    message: `Expected a stack of this machine, but ${describeElsewhere(status.name, status.elsewhere)}: run the command there, or set TEMPORAL_ADDRESS or TEMPORAL_PROFILE`,
  })
}

/** Runs `action` with a connection, then closes it. */
export async function withConnection<T>(action: (connection: LonghaulConnection) => Promise<T>): Promise<T> {
  const connection = await connectToServer()
  const ended = noteWait('waiting for the Temporal server')
  try {
    return await action(connection)
  } finally {
    ended()
    await connection.close()
  }
}

/** Runs among which a mistyped name is looked for. */
const MOST_NEAR = 1_000

/** @throws LonghaulError `Config.NotFound` with the run of the nearest name */
export async function requireRunThere(connection: LonghaulConnection, run: string): Promise<FoundRun> {
  const { findRun, listRuns } = await import('../client/index.ts')
  try {
    return await findRun({ connection, run })
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Config.NotFound') throw error
    const listed = await listRuns({ connection, limit: MOST_NEAR }).catch(() => [])
    const near = nearestName(
      run,
      listed.map(({ run: name, workflowId }) => name ?? workflowId.replace(/^\w+\//, '')),
    )
    if (near === null) throw error
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `No run is called ${JSON.stringify(run)}; did you mean ${near}? longhaul run list shows the existing runs`,
      cause: error,
    })
  }
}

/**
 * Opens LONGHAUL_ARTIFACTS (a directory or a bucket), else the local stack's directory. Reading needs no right to write.
 * @param options.writes for a command that writes: a bucket must refuse a second put of a key, as workers require
 * @param options.creates for a command whose put may be the first: it creates a missing directory
 * @throws LonghaulError `Config.NotFound` for a missing directory or a prefix without objects, which would look like a store without runs
 */
export async function openStore({
  creates = false,
  writes = creates,
}: {
  creates?: boolean
  writes?: boolean
} = {}): Promise<ArtifactStore> {
  await adoptLocalStack()
  const location = stackPaths().artifactsDir
  const opened = noteWait(`opening the artifact store ${location}`)
  const store = await openArtifactStore({ location, check: false, writes, mustExist: !creates }).finally(opened)
  return notingCalls(store, (method, argument) => `${VERBS[method] ?? method} ${placeOf(argument)} in ${location}`)
}

/** For commands that can do without the store: null if there is none here, as on a machine that does not mount a cluster's store. */
export async function openStoreIfThere(onAbsent: (message: string) => void = () => {}): Promise<ArtifactStore | null> {
  try {
    return await openStore()
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Config.NotFound') throw error
    onAbsent(error.message)
    return null
  }
}

/** Verbs of store operations, for signs of life. */
const VERBS: Readonly<Record<string, string>> = {
  read: 'reading',
  get: 'reading',
  readRecord: 'reading',
  put: 'writing',
  putRecord: 'writing',
  claimRecord: 'writing',
  list: 'listing',
  listPage: 'listing',
  folders: 'listing',
  removeFolder: 'removing',
}

/** A key, a reference or a page of keys. */
function placeOf(argument: unknown): string {
  if (typeof argument === 'string') return argument
  const { key, prefix } = (argument ?? {}) as { key?: string; prefix?: string }
  return key ?? prefix ?? ''
}

/** The same with the weights of a bucket, in the cache that workers of this machine use. */
export async function openStoreWithWeights(
  { writes }: { writes: boolean },
  env: NodeJS.ProcessEnv = process.env,
): Promise<ArtifactStore> {
  await adoptLocalStack(env)
  // Loaded here: only one command needs it.
  const { weightsPlace } = await import('../workers/worker-environment.ts')
  const { artifactsDir, cacheDir } = stackPaths()
  const weights = weightsPlace(env, cacheDir)
  return openArtifactStore({ location: artifactsDir, check: false, writes, mustExist: true, weights })
}

/** The UI's page of a workflow; null if the UI's address is not known. */
export function uiLink(workflowId: string, env: NodeJS.ProcessEnv = process.env): string | null {
  const base = env['LONGHAUL_UI_URL']
  if (!isSet(base)) return null
  const namespace = isSet(env['LONGHAUL_NAMESPACE']) ? env['LONGHAUL_NAMESPACE'] : 'default'
  return `${base.replace(/\/$/, '')}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== ''
}
