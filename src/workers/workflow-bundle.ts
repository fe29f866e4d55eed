import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, type WorkflowBundleOption } from '@temporalio/worker'

/** Prebuilt where the package is installed or the stack has built it; made on the spot while developing. */
export async function loadWorkflowBundle(codePath: string | null): Promise<WorkflowBundleOption> {
  if (codePath !== null) return { codePath }
  const packed = fileURLToPath(new URL('../workflow-bundle.js', import.meta.url))
  if (existsSync(packed)) return { codePath: packed }
  return buildWorkflowBundle()
}

/** Works on the sources (`.ts`) and on the compiled package (`.js`) alike. */
export async function buildWorkflowBundle(): Promise<{ code: string }> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const workflowsPath = fileURLToPath(new URL(`../workflows/index.${extension}`, import.meta.url))
  return bundleWorkflowCode({ workflowsPath })
}
