import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { stackPaths } from '../../src/stack/paths.ts'
import type { StackConfig } from '../../src/stack/stack-record.ts'
import { ensureTemporalCli } from '../../src/stack/setup/temporal-cli.ts'
import type { RunningStack } from './start-stack.ts'
import { HANG_MS } from './hang.ts'

/** Runs the Temporal CLI that started the stack's own server, or the cached one if the server is no CLI; null if the stack uses an
 *  external server. */
export async function temporalCli(
  stack: RunningStack,
): Promise<((...args: string[]) => Promise<Record<string, unknown>>) | null> {
  const { configFile, cacheDir } = stackPaths({ name: stack.name, home: stack.environment['LONGHAUL_HOME'] })
  const { services } = JSON.parse(await readFile(configFile, 'utf8')) as StackConfig
  const server = services.find(({ name }) => name === 'temporal')
  if (server === undefined) return null
  const isCli = !services.some(({ name }) => name === 'temporal-ui')
  const context = { signal: new AbortController().signal, log: () => undefined }
  const program = isCli ? server.command : (await ensureTemporalCli({ cacheDir, context })).value.path
  const target = ['--address', stack.temporalAddress, '--namespace', stack.namespace, '--output', 'json']
  return async (...args) => {
    const { stdout } = await promisify(execFile)(program, [...args, ...target], { timeout: HANG_MS })
    return JSON.parse(stdout) as Record<string, unknown>
  }
}
