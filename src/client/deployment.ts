import type { WorkflowService } from '@temporalio/client'
import { LonghaulError } from '../contracts/errors.ts'
import { DEPLOYMENT } from '../contracts/workflow-ids.ts'
import { CALL_TIMEOUT_MS, IS_OPEN, isNotFound, type LonghaulConnection } from './connect.ts'
import { grpcStatus } from '../platform/temporal-reach.ts'

/** One build of the control workers, as the Temporal server describes it. */
export interface BuildLook {
  build: string
  status: BuildStatus
  /** When the server first saw one of its workers. */
  seenAt: Date | null
  /** Open groups and episodes that are pinned to it. The server's index lags by a moment. */
  openHere: number
}

/** `inactive`: it was never current. The server reports `drained` some minutes after its last workflow has ended. */
export type BuildStatus = 'inactive' | 'current' | 'ramping' | 'draining' | 'drained' | 'unknown'

export interface DeploymentLook {
  deployment: string
  /** Null: only workers without a build id serve runs. */
  current: string | null
  /** The newest first. */
  builds: BuildLook[]
}

export interface PromoteInput {
  connection: LonghaulConnection
  build: string
  /** Changes nothing and reports what would change. @default false */
  dryRun?: boolean
}

export interface PromoteAnswer {
  changed: boolean
  current: string
  previous: string | null
}

type Described = Awaited<ReturnType<WorkflowService['describeWorkerDeployment']>>

/** `temporal.api.enums.v1.WorkerDeploymentVersionStatus`. The client does not depend on its package. */
const STATUSES: readonly BuildStatus[] = [
  'unknown',
  'inactive',
  'current',
  'ramping',
  'draining',
  'drained',
  'inactive',
]

/** Builds of control workers that set LONGHAUL_BUILD_ID. Needs no running worker. */
export async function lookAtDeployment(connection: LonghaulConnection): Promise<DeploymentLook> {
  const described = await describe(connection)
  const summaries = described?.workerDeploymentInfo?.versionSummaries ?? []
  const builds = await Promise.all(
    summaries.map(async ({ deploymentVersion, status, createTime }): Promise<BuildLook> => {
      const build = deploymentVersion?.buildId ?? ''
      return {
        build,
        status: STATUSES[Number(status)] ?? 'unknown',
        seenAt: createTime?.seconds === undefined ? null : new Date(Number(createTime.seconds) * 1000),
        openHere: await countPinned(connection, build),
      }
    }),
  )
  return { deployment: DEPLOYMENT, current: currentOf(described), builds: builds.toSorted(newestFirst) }
}

/**
 * Makes the build current: new work starts in it and runs continue in it, while open groups and episodes end in their own build.
 * @throws LonghaulError `Config.NotFound` for a build that no worker has reported; `Temporal.Refused` with the server's message,
 * for example for a build without a running worker
 */
export async function promoteBuild({ connection, build, dryRun = false }: PromoteInput): Promise<PromoteAnswer> {
  const described = await describe(connection)
  const known = (described?.workerDeploymentInfo?.versionSummaries ?? []).map((one) => one.deploymentVersion?.buildId)
  if (!known.includes(build)) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `No control worker in the namespace ${connection.namespace} has reported the build ${build}; reported builds: ${known.join(', ') || 'none'}. Start one first: LONGHAUL_BUILD_ID=${build} longhaul worker --role control`,
    })
  }
  const previous = currentOf(described)
  if (previous === build || dryRun) return { changed: previous !== build, current: build, previous }
  const { client, namespace } = connection
  try {
    await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      client.workflowService.setWorkerDeploymentCurrentVersion({
        namespace,
        deploymentName: DEPLOYMENT,
        buildId: build,
        // The server refuses if someone has promoted a build since the description was read.
        ...(described?.conflictToken ? { conflictToken: described.conflictToken } : {}),
      }),
    )
  } catch (cause) {
    if (![9, 3, 10].includes(grpcStatus(cause) ?? 0)) throw cause
    throw new LonghaulError({
      code: 'Temporal.Refused',
      message: `The Temporal server did not make ${build} the current build: ${reasonOf(cause)}. longhaul deployment status shows the builds and their work`,
      cause,
    })
  }
  return { changed: true, current: build, previous }
}

/** Null if no worker has ever reported a build. */
async function describe({ client, namespace }: LonghaulConnection): Promise<Described | null> {
  try {
    return await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      client.workflowService.describeWorkerDeployment({ namespace, deploymentName: DEPLOYMENT }),
    )
  } catch (error) {
    if (isNotFound(error)) return null
    throw error
  }
}

function currentOf(described: Described | null): string | null {
  return described?.workerDeploymentInfo?.routingConfig?.currentDeploymentVersion?.buildId || null
}

async function countPinned({ client }: LonghaulConnection, build: string): Promise<number> {
  const of = `TemporalWorkerDeploymentVersion = '${DEPLOYMENT}:${build}' AND TemporalWorkflowVersioningBehavior = 'Pinned'`
  const { count } = await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
    client.workflow.count(`${of} AND ${IS_OPEN}`),
  )
  return count
}

function newestFirst(one: BuildLook, other: BuildLook): number {
  return (other.seenAt?.getTime() ?? 0) - (one.seenAt?.getTime() ?? 0)
}

function reasonOf(cause: unknown): string {
  const { details } = cause as { details?: unknown }
  return typeof details === 'string' && details !== '' ? details : String(cause)
}
