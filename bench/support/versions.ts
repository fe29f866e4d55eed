import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { basename } from 'node:path'
import { cpus, release, totalmem } from 'node:os'
import { codeHash, MEASURED } from './measured-code.ts'

/** What a figure rests on; stored beside it, and printed with it. */
export interface Provenance {
  /** ISO time of the beginning, or a day. */
  date: string
  commit: string
  /** Files differed from the commit. */
  dirty: boolean
  machine: { cores: number; processor: string; memoryGiB: number; kernel: string }
  versions: Record<string, string>
  /** Of what is measured; null where the result is of nothing that `MEASURED` lists. */
  codeHash: string | null
}

/**
 * What a figure depends on; stored beside it.
 * @param name of its result, where one program makes several. @default the program's
 */
export function versions(name = benchName(process.argv[1] ?? '')): {
  node: string
  temporalSdk: string
  cores: number
  kernel: string
  provenance: Provenance
} {
  const require = createRequire(import.meta.url)
  const { version } = require('@temporalio/worker/package.json') as { version: string }
  const [node, temporalSdk, cores, kernel] = [process.version, version, cpus().length, release()] as const
  const measured = MEASURED[name]
  const provenance: Provenance = {
    date: new Date().toISOString(),
    commit: commit(),
    dirty: isDirty(),
    machine: {
      cores,
      processor: cpus()[0]?.model.trim() ?? 'unknown',
      memoryGiB: Math.round(totalmem() / 1024 ** 3),
      kernel,
    },
    versions: { node, temporalSdk },
    codeHash: measured === undefined ? null : codeHash(measured.sources),
  }
  return { node, temporalSdk, cores, kernel, provenance }
}

/** Of a bench whose results depend on its options: their file's, where it is one of those that `MEASURED` lists. */
export function resultName(file: string | undefined): string | undefined {
  const name = basename(file ?? '', '.json')
  return Object.hasOwn(MEASURED, name) ? name : undefined
}

/** Results are named like the file that measures them, two apart. */
function benchName(program: string): string {
  const name = basename(program, '.ts')
  return program.endsWith('test/trainer.ts') ? 'trainer-proofs' : name === 'trainer' ? 'trainer-cpu' : name
}

/** What the code was, or `unknown` outside of a checkout. */
export function commit(): string {
  try {
    return git('rev-parse', 'HEAD')
  } catch {
    return 'unknown'
  }
}

/** A bench writes its own results while it runs: they are no change of what it measures. */
function isDirty(): boolean {
  try {
    return git('status', '--porcelain', '--', ':/', ':(exclude,top)bench/results') !== ''
  } catch {
    return true
  }
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
}
