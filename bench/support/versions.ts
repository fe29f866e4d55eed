import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { cpus, release } from 'node:os'

/** What a figure depends on; stored beside it. */
export function versions(): { node: string; temporalSdk: string; cores: number; kernel: string } {
  const require = createRequire(import.meta.url)
  const { version } = require('@temporalio/worker/package.json') as { version: string }
  return { node: process.version, temporalSdk: version, cores: cpus().length, kernel: release() }
}

/** What the code was, or `unknown` outside of a checkout. */
export function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
  } catch {
    return 'unknown'
  }
}
