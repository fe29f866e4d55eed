/** Third-party packages that tests run, installed once into the user cache from a lock file. */
import { LonghaulError } from '../../src/contracts/errors.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../src/stack/setup/python-env.ts'

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
  try {
    const { value: python } = await ensurePythonEnv({
      cacheDir: stackPaths().cacheDir,
      context: { signal: AbortSignal.timeout(withinMs), log: (line) => console.error(line) },
      packages: { lockFile, what, takes, pipOptions: ['--no-deps', '--no-compile', ...pipOptions] },
    })
    return { python }
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    return { skip: `${name} cannot be installed here: ${error.message.split('\n')[0] ?? ''}` }
  }
}
