import { openArtifactStore } from '../adapters/artifacts/open-store.ts'
import { connect, type LonghaulConnection } from '../client/index.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import { namesTemporalServer } from '../platform/temporal-settings.ts'
import { stackEnvironment } from '../stack/environment.ts'
import { noteWait, notingCalls } from './output/at-work.ts'
import { stackPaths } from '../stack/paths.ts'
import { stackStatus } from '../stack/stack-record.ts'

/**
 * Points this process at the local stack where the environment names no Temporal server: a running stack knows its own
 * addresses, so users need not export them. Called before anything reads the environment.
 */
export async function adoptLocalStack(env: NodeJS.ProcessEnv = process.env): Promise<void> {
  if (isSet(env['LONGHAUL_TEMPORAL_ADDRESS']) || namesTemporalServer(env)) return
  const status = await stackStatus()
  if (status.state === 'down') return
  for (const [name, value] of Object.entries(stackEnvironment(status.record.facts))) {
    if (!isSet(env[name])) env[name] = value
  }
}

/**
 * To the stack's server, or to the one that the environment names. @throws LonghaulError `Temporal.Unreachable`, also where a stack is
 * named that is not up: another stack may serve Temporal's own default address, and would be taken for it
 */
export async function connectToServer(): Promise<LonghaulConnection> {
  await adoptLocalStack()
  const { LONGHAUL_STACK: stack, LONGHAUL_TEMPORAL_ADDRESS: address } = process.env
  if (isSet(stack) && !isSet(address) && !namesTemporalServer(process.env)) {
    throw new LonghaulError({
      code: 'Temporal.Unreachable',
      message: `The stack ${stack}, which LONGHAUL_STACK names, is not up: start it with longhaul up, or set TEMPORAL_ADDRESS or TEMPORAL_PROFILE`,
    })
  }
  const connected = noteWait('connecting to the Temporal server')
  return connect().finally(connected)
}

/** Lends a connection and closes it afterwards. */
export async function withConnection<T>(action: (connection: LonghaulConnection) => Promise<T>): Promise<T> {
  const connection = await connectToServer()
  const ended = noteWait('in talks with the Temporal server')
  try {
    return await action(connection)
  } finally {
    ended()
    await connection.close()
  }
}

/**
 * LONGHAUL_ARTIFACTS (a directory or a bucket), else the local stack's directory. Commands that only read need no right to write.
 * @param options.creates for a command that writes: the first put makes a directory that is not there
 * @throws LonghaulError `Config.NotFound` for a directory that is not there, which would look like a store without runs
 */
export async function openStore({ creates = false }: { creates?: boolean } = {}): Promise<ArtifactStore> {
  await adoptLocalStack()
  const location = stackPaths().artifactsDir
  const opened = noteWait(`opening the artifact store ${location}`)
  const store = await openArtifactStore({ location, check: false, mustExist: !creates }).finally(opened)
  return notingCalls(store, (method, argument) => `${VERBS[method] ?? method} ${placeOf(argument)} in ${location}`)
}

/** For what a command can do without: null where no store is here, as on a machine that does not mount the one of a cluster. */
export async function openStoreIfThere(onAbsent: (message: string) => void = () => {}): Promise<ArtifactStore | null> {
  try {
    return await openStore()
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Config.NotFound') throw error
    onAbsent(error.message)
    return null
  }
}

/** Of operations of the store, for a sign of life. */
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

/** The same with the weights of a bucket, which are brought where workers of this machine bring them. */
export async function openStoreWithWeights(env: NodeJS.ProcessEnv = process.env): Promise<ArtifactStore> {
  await adoptLocalStack(env)
  // Loaded here: one command alone needs it.
  const { weightsPlace } = await import('../workers/worker-environment.ts')
  const { artifactsDir, cacheDir } = stackPaths()
  const weights = weightsPlace(env, cacheDir)
  return openArtifactStore({ location: artifactsDir, check: false, mustExist: true, weights })
}

/** The page of a workflow, null where the address of the UI is not known. */
export function uiLink(workflowId: string, env: NodeJS.ProcessEnv = process.env): string | null {
  const base = env['LONGHAUL_UI_URL']
  if (!isSet(base)) return null
  const namespace = isSet(env['LONGHAUL_NAMESPACE']) ? env['LONGHAUL_NAMESPACE'] : 'default'
  return `${base.replace(/\/$/, '')}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== ''
}
