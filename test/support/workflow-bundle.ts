/** The workflow bundle as workers load it, built once per test process. */
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'
import { withoutForeignSources } from '../../src/platform/bundle-sources.ts'

export interface WorkflowBundle {
  /** JavaScript with its source map inline: what a worker gets as `workflowBundle`. */
  code: string
}

const bundles = new Map<string, Promise<WorkflowBundle>>()

/** Every workflow of the project: `src/workflows/index.ts`. */
export function buildWorkflowBundle(): Promise<WorkflowBundle> {
  return buildBundleOf(fileURLToPath(new URL('../../src/workflows/index.ts', import.meta.url)), console.error, [
    fileURLToPath(new URL('../../src/workflows/trace-interceptors.ts', import.meta.url)),
  ])
}

/** A bundle of another entry, for tests of the test support itself. Cached by path: a build costs seconds. */
export function buildBundleOf(
  workflowsPath: string,
  report: (message: string) => void = console.error,
  workflowInterceptorModules: string[] = [],
): Promise<WorkflowBundle> {
  let bundle = bundles.get(workflowsPath)
  if (bundle === undefined) {
    // Warnings are kept: the bundler reports disallowed modules there, and throws a message that names none.
    const logger = new DefaultLogger('WARN', ({ message }) => report(message))
    bundle = bundleWorkflowCode({ workflowsPath, workflowInterceptorModules, logger }).then(({ code }) => ({
      code: withoutForeignSources(code),
    }))
    bundles.set(workflowsPath, bundle)
  }
  return bundle
}
