/** llama.cpp on this machine's CPU: the environment of `infra/llama-cpp`, and servers of a GGUF file. */
import { join } from 'node:path'
import { findPythonPackages } from '../python-packages.ts'
import { isLinuxWithAvx2 } from '../../../src/stack/setup/vllm-cpu.ts'
import { type LiveEngine, startEngine } from './engine-process.ts'

const root = join(import.meta.dirname, '../../..')

/** The interpreter with the package, or why this machine has none. */
export async function findLlamaCpp(): Promise<{ python: string } | { skip: string }> {
  if (!isLinuxWithAvx2()) return { skip: 'llama.cpp’s package needs an x86-64 processor with AVX2, and Linux' }
  return findPythonPackages({
    lockFile: join(root, 'infra/llama-cpp/requirements.lock'),
    what: 'llama.cpp’s server',
    takes: 'seconds, 34 MB to fetch',
    name: 'llama.cpp',
    withinMs: 600_000,
  })
}

export interface StartLlamaCppInput {
  python: string
  /** GGUF file. */
  model: string
  /** The model's name in requests. */
  name: string
  /** Any of these is accepted. */
  keys: readonly string[]
  port: number
  /** Number of concurrent requests. */
  slots: number
  /** Positions of each slot. */
  context: number
  /** File with the server's output. */
  log: string
}

/** @throws Error with the server's output if it does not answer */
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
