import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { basename } from 'node:path'
import { cpus, release, totalmem } from 'node:os'
import { codeHash, MEASURED } from './measured-code.ts'

/** The provenance of a figure, stored and printed with it. */
export interface Provenance {
  /** ISO time of the start, or a day. */
  date: string
  commit: string
  /** Whether files differed from the commit. */
  dirty: boolean
  machine: { cores: number; processor: string; memoryGiB: number; kernel: string }
  versions: Record<string, string>
  /** Hash of the measured code; null if `MEASURED` does not list the result. */
  codeHash: string | null
}

/**
 * The provenance of a figure, for its result file.
 * @param name the result's name, if one program makes several. @default the program's
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

/** The result's name, for benches that write several: the name of the output file, if `MEASURED` lists it. */
export function resultName(file: string | undefined): string | undefined {
  const name = basename(file ?? '', '.json')
  return Object.hasOwn(MEASURED, name) ? name : undefined
}

/** Results are named like the file that measures them, with two exceptions. */
function benchName(program: string): string {
  const name = basename(program, '.ts')
  return program.endsWith('test/trainer.ts') ? 'trainer-proofs' : name === 'trainer' ? 'trainer-cpu' : name
}

/** The commit, or `unknown` outside of a checkout. */
export function commit(): string {
  try {
    return git('rev-parse', 'HEAD')
  } catch {
    return 'unknown'
  }
}

/** Benches write their results while they run, and `npm run figures` their page; these are no change of the measured code. */
function isDirty(): boolean {
  try {
    return (
      git('status', '--porcelain', '--', ':/', ':(exclude,top)bench/results', ':(exclude,top)docs/figures.md') !== ''
    )
  } catch {
    return true
  }
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
}
