import type { WorkflowDefinitionOptions } from '@temporalio/common'
import { workflowInfo } from '@temporalio/workflow'
import { DEPLOYMENT } from '../contracts/workflow-ids.ts'

/**
 * For `setWorkflowOptions`. The server refuses tasks with this option from a worker without a build id, which most workers lack. In
 * that case the SDK reports a version without a deployment.
 */
export function endsInItsBuild(): WorkflowDefinitionOptions {
  const { currentDeploymentVersion: version } = workflowInfo()
  return version?.deploymentName === DEPLOYMENT ? { versioningBehavior: 'PINNED' } : {}
}
