/** Third-party packages that tests run, installed once into the user cache from a lock file. */
import { LonghaulError } from '../../src/contracts/errors.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../src/stack/setup/python-env.ts'
import type { StepContext } from '../../src/stack/steps.ts'

interface FindPackagesInput {
  /** Lists all packages to install, because their own dependencies are not followed. */
  lockFile: string
  /** For the progress message: what is installed, and how long it takes. */
  what: string
  takes: string
  /** Replaces `what` in the reason of a skip. */
  name?: string
  withinMs: number
  /** In addition to the common options. @default none */
  pipOptions?: readonly string[]
}

/** The interpreter with the packages, or why this machine has none. */
export async function findPythonPackages({
  lockFile,
  what,
  takes,
  name = what,
  withinMs,
  pipOptions = [],
}: FindPackagesInput): Promise<{ python: string } | { skip: string }> {
  const packages = { lockFile, what, takes, pipOptions: ['--no-deps', '--no-compile', ...pipOptions] }
  const found = await installOrSkip({ name, withinMs, install: (input) => ensurePythonEnv({ ...input, packages }) })
  return 'skip' in found ? found : { python: found.installed }
}

interface InstallOrSkipInput {
  /** In the reason of a skip. */
  name: string
  withinMs: number
  install: (input: { cacheDir: string; context: StepContext }) => Promise<{ value: string }>
}

/** Where it lies in the user cache, or why this machine has none. */
export async function installOrSkip({
  name,
  withinMs,
  install,
}: InstallOrSkipInput): Promise<{ installed: string } | { skip: string }> {
  try {
    const context = { signal: AbortSignal.timeout(withinMs), log: (line: string) => console.error(line) }
    const { value } = await install({ cacheDir: stackPaths().cacheDir, context })
    return { installed: value }
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    return { skip: `${name} cannot be installed here: ${error.message.split('\n')[0] ?? ''}` }
  }
}
