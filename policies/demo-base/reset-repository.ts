import type { SandboxHandle } from '../../src/contracts/sandbox.types.ts'
import { parseReady } from '../../src/adapters/docker/sandbox/runner-wire.ts'
import type { RunnerPool } from '../../src/adapters/docker/sandbox/runner-pool.ts'

export interface ResetRepositoryInput {
  host: { context: { runners: Pick<RunnerPool, 'request'> } }
  sandbox: SandboxHandle
  /** Entries relative to the repository's directory, root-owned, `.git` included. */
  repoTar: Uint8Array
  signal: AbortSignal
}

const RESET_TIMEOUT_MS = 60_000

/** Gives a long-lived sandbox another repository: agent processes ended, journal, fence and state as on the first day.
 *  Only for collecting demonstrations (GNU head and tar in the image); an episode always gets a container of its own.
 *  @returns the handle with the new repository's HEAD as `startCommit` */
export async function resetRepository(input: ResetRepositoryInput): Promise<SandboxHandle> {
  const { host, sandbox, repoTar, signal } = input
  const line = Buffer.concat([Buffer.from(`reset ${repoTar.byteLength}\n`), repoTar])
  const request = { name: sandbox.name, line, timeoutMs: RESET_TIMEOUT_MS, signal }
  const { startCommit } = parseReady(await host.context.runners.request(request))
  return { ...sandbox, startCommit }
}
