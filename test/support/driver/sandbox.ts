/**
 * Workflow code inside the SDK's own isolate, without a server. The only file that touches internal paths of
 * `@temporalio/worker`: they are not covered by semantic versioning, hence the exact pin of every `@temporalio` package.
 */
import type { coresdk } from '@temporalio/proto'
import reusableVm from '@temporalio/worker/lib/workflow/reusable-vm.js'
import workerModule from '@temporalio/worker/lib/worker.js'
import type { WorkflowInfo } from '@temporalio/workflow'
import type { WorkflowBundle } from '../workflow-bundle.ts'

/** One workflow execution in the isolate: jobs in, commands out. */
export interface SandboxedWorkflow {
  activate(
    activation: coresdk.workflow_activation.IWorkflowActivation,
  ): Promise<coresdk.workflow_completion.IWorkflowActivationCompletion>
  getAndResetSinkCalls(): Promise<{ ifaceName: string; fnName: string; args: unknown[] }[]>
  dispose(): Promise<void>
}

export interface WorkflowSandbox {
  createWorkflow(options: {
    info: WorkflowInfo
    randomnessSeed: number[]
    now: number
    showStackTraceSources: boolean
  }): Promise<SandboxedWorkflow>
}

/** Real workers give an activation two seconds; tests share their cores. */
const ISOLATE_TIMEOUT_MS = 20_000

const sandboxes = new WeakMap<WorkflowBundle, Promise<WorkflowSandbox>>()

/** One V8 context per bundle and process, shared by every execution, as workers do by default (`reuseV8Context`). */
export function openSandboxOf(bundle: WorkflowBundle): Promise<WorkflowSandbox> {
  let sandbox = sandboxes.get(bundle)
  if (sandbox === undefined) {
    sandbox = create(bundle)
    sandboxes.set(bundle, sandbox)
  }
  return sandbox
}

async function create(bundle: WorkflowBundle): Promise<WorkflowSandbox> {
  const parsed = workerModule.parseWorkflowCode(bundle.code)
  return reusableVm.ReusableVMWorkflowCreator.create(parsed, ISOLATE_TIMEOUT_MS, new Set<string>())
}
