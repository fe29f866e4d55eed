/**
 * Workflow code inside the SDK's own isolate, without a server. Only this file uses internal paths of `@temporalio/worker`, which
 * semantic versioning does not cover; hence the exact pin of every `@temporalio` package.
 */
import type { coresdk } from '@temporalio/proto'
import reusableVm from '@temporalio/worker/lib/workflow/reusable-vm.js'
import vmShared from '@temporalio/worker/lib/workflow/vm-shared.js'
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

const sandboxes = new WeakMap<WorkflowBundle, Promise<WorkflowSandbox>>()

/** One V8 context per bundle and process, shared by every execution, like a worker's default (`reuseV8Context`). */
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
  // No limit for an activation, although real workers give it two seconds: Node implements each limit with a thread and an event loop
  // for every call into the isolate. An endless loop hangs its test file, whose limit ends it.
  const unlimited = undefined as unknown as number
  const creator = await reusableVm.ReusableVMWorkflowCreator.create(parsed, unlimited, new Set<string>())
  // A worker records where each promise was created, for the UI's query of open promises: a stack trace for each, which no test
  // reads.
  vmShared.globalHandlers['stopPromiseHook']()
  return creator
}
