import type { WorkflowDefinitionOptions } from '@temporalio/common'
import { workflowInfo } from '@temporalio/workflow'
import { DEPLOYMENT } from '../contracts/workflow-ids.ts'

/**
 * For `setWorkflowOptions`. The server refuses tasks that say it from a worker without a build, which most have not; the SDK then gives a
 * version without a deployment.
 */
export function endsInItsBuild(): WorkflowDefinitionOptions {
  const { currentDeploymentVersion: version } = workflowInfo()
  return version?.deploymentName === DEPLOYMENT ? { versioningBehavior: 'PINNED' } : {}
}
