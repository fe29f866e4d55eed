import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { changeEnvironment } from './environment.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { runCli } from '../../src/cli/run-cli.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'

export interface Answer {
  exitCode: number
  stdout: string
  stderr: string
}

/** Runs one command line in this process. */
export async function longhaul(...args: string[]): Promise<Answer> {
  let [stdout, stderr] = ['', '']
  const exitCode = await runCli({
    args,
    console: {
      out: (text) => void (stdout += `${text}\n`),
      err: (text) => void (stderr += `${text}\n`),
      record: (value) => void (stdout += `${JSON.stringify(value)}\n`),
      command: (line) => void (stderr += `${line}\n`),
      terminal: null,
    },
  })
  return { exitCode, stdout, stderr }
}

/** An empty store for commands of this process, without a Temporal server, so that they look for no local stack. */
export async function useOwnStore(): Promise<{ root: string; store: ArtifactStore; close(): Promise<void> }> {
  const root = await mkdtemp(join(tmpdir(), 'longhaul-store-'))
  const mine = { LONGHAUL_ARTIFACTS: join(root, 'store'), LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1' }
  const restore = changeEnvironment(mine)
  return {
    root,
    store: createDirectoryStore({ root: mine.LONGHAUL_ARTIFACTS }),
    close: async () => {
      restore()
      await rm(root, { recursive: true, force: true })
    },
  }
}
