/** A Temporal development server of one's own, by the SDK's test environment: the binary that stacks use, a free port, no UI. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensureTemporalCli } from '../../src/stack/setup/temporal-cli.ts'
import { attributes } from '../../src/workflows/search-attributes.ts'

export interface LocalServer extends AsyncDisposable {
  environment: TestWorkflowEnvironment
  /** Of the server's binary. */
  path: string
}

/** @param onDisk whether its database is a file, as a stack's is; in memory otherwise */
export async function startLocalServer({ onDisk = false }: { onDisk?: boolean } = {}): Promise<LocalServer> {
  const { cacheDir } = stackPaths()
  const context = { signal: new AbortController().signal, log: (line: string) => console.error(line) }
  const { path } = (await ensureTemporalCli({ cacheDir, context })).value
  const folder = onDisk ? await mkdtemp(join(tmpdir(), 'longhaul-temporal-')) : null
  const environment = await TestWorkflowEnvironment.createLocal({
    server: {
      executable: { type: 'existing-path', path },
      log: { format: 'json', level: 'error' },
      searchAttributes: Object.values(attributes),
      ...(folder === null ? {} : { dbFilename: join(folder, 'temporal.db') }),
    },
  })
  return {
    environment,
    path,
    async [Symbol.asyncDispose]() {
      await environment.teardown()
      if (folder !== null) await rm(folder, { recursive: true, force: true })
    },
  }
}
