import { join } from 'node:path'
import { LonghaulError } from '../../../src/contracts/errors.ts'
import { requireCommand } from '../../../src/platform/run-command.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'

/**
 * Tells the trainer's tests where the package `gguf` lies (`LONGHAUL_GGUF_PACKAGE`), which writes the files that imports read. It
 * lies apart, so that the trainer's own environment stays what users have. Where it cannot be installed those tests say so.
 */
export async function offerGgufPackage({ root, signal }: { root: string; signal?: AbortSignal }): Promise<void> {
  if ((process.env['LONGHAUL_GGUF_PACKAGE'] ?? '') !== '') return
  const limit = AbortSignal.timeout(600_000)
  const bounded = signal === undefined ? limit : AbortSignal.any([signal, limit])
  try {
    const { value: python } = await ensurePythonEnv({
      cacheDir: stackPaths().cacheDir,
      context: { signal: bounded, log: (line) => console.error(line) },
      packages: {
        lockFile: join(root, 'trainer/tests/gguf.lock'),
        what: 'the package gguf, which writes what tests of imports read',
        takes: 'seconds, 0.1 MB to fetch',
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
    process.env['LONGHAUL_GGUF_PACKAGE'] = stdout.trim()
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    console.error(`the package gguf cannot be installed here: ${error.message.split('\n')[0] ?? ''}`)
  }
}
