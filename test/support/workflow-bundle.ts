/** The workflow bundle as workers load it, built once for a whole `npm test`, or once per test process if a file runs alone. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'
import { withoutForeignSources, WORKFLOW_INTERCEPTORS } from '../../src/platform/bundle-sources.ts'
import { ensureWorkflowBundle } from '../../src/stack/setup/workflow-bundle.ts'

export interface WorkflowBundle {
  /** JavaScript with an inline source map, as a worker gets it in `workflowBundle`. */
  code: string
}

const bundles = new Map<string, Promise<WorkflowBundle>>()
let sharedBundle: Promise<WorkflowBundle> | null = null

/** Every workflow of the project: `src/workflows/index.ts`. Identified by its sources' content, so that a planted tree has its own
 *  bundle. */
export function buildWorkflowBundle(): Promise<WorkflowBundle> {
  const shared = process.env['LONGHAUL_TEST_SHARED']
  if (shared !== undefined) return (sharedBundle ??= findOrBuild(shared))
  return buildBundleOf(
    fileURLToPath(new URL('../../src/workflows/index.ts', import.meta.url)),
    console.error,
    workflowInterceptors(),
  )
}

/** Paths of the interceptors that every bundle of the project has. */
export function workflowInterceptors(): string[] {
  return WORKFLOW_INTERCEPTORS.map((name) => fileURLToPath(new URL(`../../src/workflows/${name}.ts`, import.meta.url)))
}

async function findOrBuild(cacheDir: string): Promise<WorkflowBundle> {
  const context = { signal: new AbortController().signal, log: (line: string) => console.error(line) }
  const { value } = await ensureWorkflowBundle({ cacheDir, context })
  return { code: await readFile(value, 'utf8') }
}

/** A bundle of another entry, for tests of the test support itself. Cached by path, because a build takes seconds. */
export function buildBundleOf(
  workflowsPath: string,
  report: (message: string) => void = console.error,
  workflowInterceptorModules: string[] = [],
): Promise<WorkflowBundle> {
  let bundle = bundles.get(workflowsPath)
  if (bundle === undefined) {
    // Warnings are kept, because the bundler reports disallowed modules there and its error names none.
    const logger = new DefaultLogger('WARN', ({ message }) => report(message))
    bundle = bundleWorkflowCode({ workflowsPath, workflowInterceptorModules, logger }).then(({ code }) => ({
      code: withoutForeignSources(code),
    }))
    bundles.set(workflowsPath, bundle)
  }
  return bundle
}
