import { join } from 'node:path'
import { LonghaulError } from '../../../src/contracts/errors.ts'
import { requireCommand } from '../../../src/platform/run-command.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'

interface TestPackage {
  /** Variable with the package's folder, for the tests. */
  variable: string
  lockFile: string
  what: string
  takes: string
}

const PACKAGES: readonly TestPackage[] = [
  {
    variable: 'LONGHAUL_GGUF_PACKAGE',
    lockFile: 'trainer/tests/gguf.lock',
    what: 'the package gguf, which writes what tests of imports read',
    takes: 'seconds, 0.1 MB to fetch',
  },
  {
    variable: 'LONGHAUL_PEFT_PACKAGE',
    lockFile: 'trainer/tests/peft.lock',
    what: 'the package peft, which loads the adapters that are published',
    takes: 'seconds, 1.4 MB to fetch',
  },
]

/**
 * Tells the trainer's tests the folders of packages that write its input and read its output. They are separate, so that the
 * trainer's own environment is the same as users'. Tests of a package that cannot be installed are skipped with the reason.
 */
export async function offerTestPackages({ root, signal }: { root: string; signal?: AbortSignal }): Promise<void> {
  for (const one of PACKAGES) await offer(one, { root, signal })
}

async function offer(
  { variable, lockFile, what, takes }: TestPackage,
  { root, signal }: { root: string; signal: AbortSignal | undefined },
): Promise<void> {
  if ((process.env[variable] ?? '') !== '') return
  const limit = AbortSignal.timeout(600_000)
  const bounded = signal === undefined ? limit : AbortSignal.any([signal, limit])
  try {
    const { value: python } = await ensurePythonEnv({
      cacheDir: stackPaths().cacheDir,
      context: { signal: bounded, log: (line) => console.error(line) },
      packages: {
        lockFile: join(root, lockFile),
        what,
        takes,
        pipOptions: ['--no-deps', '--no-compile'],
      },
    })
    const { stdout } = await requireCommand({
      what: 'Asking an environment for its packages',
      command: python,
      args: ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'],
      timeoutMs: 60_000,
      signal: bounded,
    })
    process.env[variable] = stdout.trim()
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    console.error(`${what}, cannot be installed here: ${error.message.split('\n')[0] ?? ''}`)
  }
}
