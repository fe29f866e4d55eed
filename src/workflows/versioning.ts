import type { WorkflowDefinitionOptions } from '@temporalio/common'
import { workflowInfo } from '@temporalio/workflow'

/** For `setWorkflowOptions`. The server refuses tasks that say it from a worker without a build, which most have not. */
export function endsInItsBuild(): WorkflowDefinitionOptions {
  return workflowInfo().currentDeploymentVersion === undefined ? {} : { versioningBehavior: 'PINNED' }
}
