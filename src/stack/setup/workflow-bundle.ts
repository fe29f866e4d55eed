import { readdir, readFile, rm, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join, relative } from 'node:path'

import { bundleWorkflowCode, type Logger } from '@temporalio/worker'

import { exists, writeFileAtomically } from '../../platform/files.ts'
import { isCheckout, moduleFile, packageFile } from '../paths.ts'
import type { StepContext } from '../steps.ts'
import { sha256OfParts } from '../../platform/hash.ts'
import { failureConverterOf } from '../../platform/data-converter.ts'
import { withoutForeignSources, WORKFLOW_INTERCEPTORS } from '../../platform/bundle-sources.ts'

/** The folders that workflow code may import (checked by the boundary test). */
const SOURCES = ['workflows', 'domain', 'contracts', 'scaffold', 'activities']

/** Raise it when the same sources yield another bundle. */
const MADE_BY = 'bundle/3'

/** Number of bundles kept, newest first. Processes use only recent ones. */
const KEEP = 8

export interface EnsureWorkflowBundleInput {
  cacheDir: string
  context: StepContext
}

/** Path of the bundle that all workers share: shipped with an installed package, else built once per state of the sources. */
export async function ensureWorkflowBundle(input: EnsureWorkflowBundleInput): Promise<{ value: string; did: string }> {
  const { cacheDir, context } = input
  const shipped = packageFile('dist/workflow-bundle.js')
  const converter = failureConverterOf()
  const isPlain = converter.failureConverterPath === undefined
  if (isPlain && !isCheckout() && (await exists(shipped))) return { value: shipped, did: 'shipped with the package' }
  const folder = join(cacheDir, 'bundles')
  const file = join(folder, `${await hashSources()}${isPlain ? '' : '-encrypted'}.js`)
  if (await exists(file)) return { value: file, did: 'cached' }
  context.log('bundling the workflows')
  const bundled = await bundleWorkflowCode({
    workflowsPath: moduleFile('workflows/index'),
    workflowInterceptorModules: WORKFLOW_INTERCEPTORS.map((name) => moduleFile(`workflows/${name}`)),
    logger: quietLogger(context),
    ...converter,
  })
  const code = withoutForeignSources(bundled.code)
  await writeFileAtomically(file, code)
  await removeOld(folder)
  return { value: file, did: `bundled, ${Math.round(code.length / 1024)} KB` }
}

async function hashSources(): Promise<string> {
  // The bundle also depends on the SDK's version.
  const sdk = createRequire(import.meta.url)('@temporalio/worker/package.json') as { version: string }
  const root = packageFile(isCheckout() ? 'src' : 'dist')
  const parts: string[] = [sdk.version, MADE_BY]
  for (const source of SOURCES) {
    const entries = await readdir(join(root, source), { recursive: true, withFileTypes: true }).catch(() => [])
    const files = entries
      .filter((entry) => entry.isFile() && /\.[tj]s$/.test(entry.name) && !entry.name.includes('.test.'))
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
    for (const file of files) parts.push(relative(root, file), await readFile(file, 'utf8'))
  }
  return sha256OfParts(...parts).slice(0, 16)
}

async function removeOld(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.js'))
  const aged = await Promise.all(
    names.map(async (name) => ({ name, mtimeMs: (await stat(join(folder, name)).catch(() => null))?.mtimeMs ?? 0 })),
  )
  aged.sort((a, b) => b.mtimeMs - a.mtimeMs)
  for (const { name } of aged.slice(KEEP)) await rm(join(folder, name), { force: true })
}

function quietLogger({ log }: StepContext): Logger {
  const say = (message: string): void => log(message)
  const ignore = (): void => undefined
  return { log: ignore, trace: ignore, debug: ignore, info: ignore, warn: say, error: say }
}
