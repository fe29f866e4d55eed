/** vLLM's and SGLang's own request classes as processes that judge the requests of Longhaul's client. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Exchange } from '../../../src/adapters/policy-server/dialect.ts'
import { findPythonPackages } from '../python-packages.ts'

export type ServerPackage = 'vllm' | 'sglang'

export interface Judgment {
  /** Fields that the server would ignore silently. */
  unknown: string[]
  /** The request as the server reads it, with its defaults; only if it has a class for it. */
  read?: Record<string, unknown>
  /** Decoding fields whose value the server would choose. */
  left_to_server?: string[]
  /** `<exception type>: <message>` of a refused request. */
  error?: string
}

export interface Judge {
  version(): Promise<string>
  judge(exchange: Exchange<unknown>): Promise<Judgment>
  /** An answer in the server's format. */
  answer(what: string, version: string): Promise<unknown>
  /** The server's own parse of its start command's arguments. */
  parse(command: readonly string[]): Promise<Record<string, unknown> & { error?: string }>
  /** Whether the server accepts this many tokens for a model with this config.json. */
  longest(input: { config: object; overrides: object; asked: number }): Promise<{ tokens?: number; error?: string }>
  /** Environment variables that the server knows. */
  environment(): Promise<string[]>
  stop(): Promise<void>
}

/** The interpreter, or why the packages are missing. They come from the package index once: 1.1 GB on disk, about a minute. */
export async function findPackages(): Promise<{ python: string } | { skip: string }> {
  if (process.platform !== 'linux') return { skip: 'vLLM and SGLang are packaged for Linux only' }
  return findPythonPackages({
    lockFile: join(import.meta.dirname, 'server-packages.lock'),
    what: 'vLLM and SGLang without what they depend on, to hold requests against their classes',
    takes: 'about a minute, 380 MB to fetch',
    name: 'the packages',
    withinMs: 900_000,
  })
}

export function startJudge({ python, of }: { python: string; of: ServerPackage }): Judge {
  const child = spawn(python, [join(import.meta.dirname, 'judge.py'), of], {
    // Warnings of half-imported packages are irrelevant; a failure shows as a missing answer.
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...process.env, PYTHONUTF8: '1', VLLM_LOGGING_LEVEL: 'ERROR', DO_NOT_TRACK: '1' },
  })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()

  async function ask<T>(question: object): Promise<T> {
    child.stdin.write(`${JSON.stringify(question)}\n`)
    const { value, done } = await lines.next()
    if (done === true) throw new Error(`The judge of ${of} ended: run judge.py by hand to see why`)
    return JSON.parse(value) as T
  }

  return {
    version: async () => (await ask<{ version: string }>({ ask: 'version' })).version,
    judge({ path, body }) {
      const url = new URL(path, 'http://server')
      const query = Object.fromEntries(url.searchParams)
      const method = body === undefined ? 'GET' : 'POST'
      return ask({ ask: 'judge', method, path: url.pathname, query, body })
    },
    answer: (what, version) => ask({ ask: 'answer', what, version }),
    parse: (command) => ask({ ask: 'parse', command }),
    longest: (input) => ask({ ask: 'longest', ...input }),
    environment: () => ask({ ask: 'environment' }),
    async stop() {
      child.stdin.end()
      await exited
    },
  }
}
