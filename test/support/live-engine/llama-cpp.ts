/** A llama.cpp of this machine's processor: the environment of `infra/llama-cpp`, and servers of a GGUF file. */
import { join } from 'node:path'
import { LonghaulError } from '../../../src/contracts/errors.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'
import { isLinuxWithAvx2, type LiveEngine, startEngine } from './engine-process.ts'

const root = join(import.meta.dirname, '../../..')

/** The interpreter that has it, or why this machine has none. */
export async function findLlamaCpp(): Promise<{ python: string } | { skip: string }> {
  if (!isLinuxWithAvx2()) return { skip: 'llama.cpp’s package needs an x86-64 processor with AVX2, and Linux' }
  try {
    const { value: python } = await ensurePythonEnv({
      cacheDir: stackPaths().cacheDir,
      context: { signal: AbortSignal.timeout(600_000), log: (line) => console.error(line) },
      packages: {
        lockFile: join(root, 'infra/llama-cpp/requirements.lock'),
        what: 'llama.cpp’s server',
        takes: 'seconds, 34 MB to fetch',
        pipOptions: ['--no-deps', '--no-compile'],
      },
    })
    return { python }
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    return { skip: `llama.cpp cannot be installed here: ${error.message.split('\n')[0] ?? ''}` }
  }
}

export interface StartLlamaCppInput {
  python: string
  /** GGUF file. */
  model: string
  /** The name that it serves the model under. */
  name: string
  /** Any of them is taken. */
  keys: readonly string[]
  port: number
  /** Requests that it works on at once. */
  slots: number
  /** Positions of each. */
  context: number
  /** File of what it prints. */
  log: string
}

/** @throws Error with what it printed where it does not answer */
export function startLlamaCpp({ python, keys, log, ...options }: StartLlamaCppInput): Promise<LiveEngine> {
  return startEngine({
    what: 'llama.cpp',
    program: python,
    args: [join(import.meta.dirname, 'llama_server.py'), JSON.stringify(options)],
    env: { PATH: process.env['PATH'] ?? '', SERVER_KEYS: keys.join(',') },
    url: `http://127.0.0.1:${options.port}`,
    log,
  })
}
