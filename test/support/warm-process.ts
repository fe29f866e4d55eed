/** Processes that have imported torch and fork for each job: `trainer/tests/warm_*.py`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { CommandResult, RunCommandInput } from '../../src/platform/run-command.ts'
import { pythonEnvironment } from './python.ts'

export interface WarmProcess {
  /** Sends a job as a line of JSON. @returns the answer's line; answers come in the order of the jobs */
  ask(job: object): Promise<string>
  /** Accepts no further job. Forks continue. */
  close(): Promise<void>
  /** Kills it in the middle of a job. */
  kill(): void
}

/** @param module as after `-m` */
export function startWarmProcess({
  python,
  module,
  args = [],
}: {
  python: string
  module: string
  args?: readonly string[]
}): WarmProcess {
  const env = { ...pythonEnvironment, HF_HUB_OFFLINE: '1' }
  const child = spawn(python, ['-m', module, ...args], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  // If the process has ended, the missing answer reports it.
  child.stdin.on('error', () => undefined)
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async ask(job) {
      child.stdin.write(`${JSON.stringify(job)}\n`)
      const answer = await answers.next()
      if (answer.done === true) throw new Error(`Expected an answer of ${module}, but it has ended`)
      return answer.value
    },
    async close() {
      child.stdin.end()
      await ended
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

export interface WarmPython {
  /** Like `runCommand` with this interpreter and `-m` as command; `tail` is the whole output. One call at a time. */
  run(input: RunCommandInput): Promise<Omit<CommandResult, 'stdout'>>
  close(): Promise<void>
}

/** Third-party modules that the trainer and its tests import. */
const HEAVY_IMPORTS = [
  'pytest',
  'torch.distributed.tensor',
  'torch.distributed.fsdp',
  'torch._dynamo',
  'transformers.generation',
  'transformers.models.auto.modeling_auto',
  'transformers.models.auto.tokenization_auto',
  'transformers.models.qwen2.modeling_qwen2',
  'transformers.models.qwen3.modeling_qwen3',
  'safetensors.torch',
  'pydantic.main',
]

/** Starts with its first call, and again after a call that exceeded its time. See `trainer/tests/warm_python.py`. */
export function createWarmPython(python: string, imports: readonly string[] = HEAVY_IMPORTS): WarmPython {
  let started: WarmProcess | null = null
  let calls = 0
  return {
    async run({ args, cwd = process.cwd(), env = process.env, timeoutMs, signal, onLine }) {
      signal?.throwIfAborted()
      const [option, ...words] = args
      if (option !== '-m') throw new Error(`Expected a module to run, got ${args.join(' ')}`)
      started ??= startWarmProcess({ python, module: 'warm_python', args: imports })
      const asked = started
      calls += 1
      const log = join(tmpdir(), `warm-python-${process.pid}-${calls}.log`)
      const answer = asked.ask({ arguments: words, directory: cwd, environment: env, log }).then(Number)
      let timedOut = false
      const stop = (): void => {
        asked.kill()
        if (started === asked) started = null
      }
      const timer = setTimeout(() => {
        timedOut = true
        stop()
      }, timeoutMs)
      signal?.addEventListener('abort', stop, { once: true })
      try {
        const exitCode = await answer.catch(() => null)
        signal?.throwIfAborted()
        const output = await readFile(log, 'utf8').catch(() => '')
        for (const line of output.split('\n')) onLine?.(line)
        return { exitCode, tail: output, timedOut, wasSilent: false }
      } finally {
        clearTimeout(timer)
        signal?.removeEventListener('abort', stop)
        await rm(log, { force: true })
      }
    },
    close: async () => started?.close(),
  }
}
