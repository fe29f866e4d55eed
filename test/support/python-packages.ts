/** Packages of others that tests run: installed once into the user cache, by a lock file. */
import { LonghaulError } from '../../src/contracts/errors.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../src/stack/setup/python-env.ts'

interface FindPackagesInput {
  /** Names all that is installed: the packages' own dependencies are not followed. */
  lockFile: string
  /** In the progress: what is installed, and for how long. */
  what: string
  takes: string
  /** In the reason of a skip, where another word than `what` is wanted. */
  name?: string
  withinMs: number
  /** Beside those of all. @default none */
  pipOptions?: readonly string[]
}

/** The interpreter that has them, or why this machine has none. */
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
