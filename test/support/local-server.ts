/** A private Temporal development server by the SDK's test environment: the binary that stacks use, a free port, no UI. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TestWorkflowEnvironment } from '@temporalio/testing'
import { shellQuote } from '../../src/platform/run-command.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensureTemporalCli } from '../../src/stack/setup/temporal-cli.ts'
import { attributes } from '../../src/workflows/search-attributes.ts'

export interface LocalServer extends AsyncDisposable {
  environment: TestWorkflowEnvironment
  /** Path of the server's binary. */
  path: string
}

/** @param onDisk whether its database is a file, like a stack's; otherwise it is in memory */
export async function startLocalServer({ onDisk = false }: { onDisk?: boolean } = {}): Promise<LocalServer> {
  const { cacheDir } = stackPaths()
  const context = {
    signal: new AbortController().signal,
    log: (line: string) => console.error(line),
    saw: () => undefined,
  }
  const { path } = (await ensureTemporalCli({ cacheDir, context })).value
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-temporal-'))
  // Core lets the server inherit this process's stdout, so its banner would precede a command's JSON.
  const quiet = join(folder, 'temporal')
  await writeFile(quiet, `#!/bin/sh\nexec ${shellQuote(path)} "$@" >&2\n`, { mode: 0o755 })
  const environment = await startPatiently(() =>
    TestWorkflowEnvironment.createLocal({
      server: {
        executable: { type: 'existing-path', path: quiet },
        log: { format: 'json', level: 'error' },
        searchAttributes: Object.values(attributes),
        // Off by default so far; a cluster may have it on.
        extraArgs: ['--dynamic-config-value', 'frontend.WorkflowPauseEnabled=true'],
        ...(onDisk ? { dbFilename: join(folder, 'temporal.db') } : {}),
      },
    }),
  )
  return {
    environment,
    path,
    async [Symbol.asyncDispose]() {
      await environment.teardown()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Core gives a server five seconds, which a busy machine may need just for its first connection. */
async function startPatiently<T>(start: () => Promise<T>, attempts = 6): Promise<T> {
  try {
    return await start()
  } catch (error) {
    if (attempts === 1 || !/did not start within/.test(String(error))) throw error
    return startPatiently(start, attempts - 1)
  }
}
