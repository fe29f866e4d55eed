/** vLLM without a GPU as the sampler of a run, started, restarted and ended by Longhaul. */
import { launchVllmCpu } from '../../src/stack/setup/vllm-cpu.ts'
import { findVllm } from '../../test/support/live-engine/vllm.ts'

export interface LiveSamplerOptions {
  /** Of the exported weights and of the engine. @default float32 */
  dtype?: 'float32' | 'bfloat16'
  /** @default true */
  prefixCaching?: boolean
}

/**
 * What a recipe of the embedded server changes. Prompts are read whole: this build ends when a request with a seed is read in pieces.
 * @throws Error where this machine cannot run vLLM
 */
export async function liveSampler({
  dtype = 'float32',
  prefixCaching = true,
}: LiveSamplerOptions = {}): Promise<Record<string, unknown>> {
  const found = await findVllm()
  if ('skip' in found) throw new Error(found.skip)
  return {
    trainer: { exportDtype: dtype },
    policyServer: {
      kind: 'vllm',
      launch: launchVllmCpu(found.bin, [prefixCaching ? '--enable-prefix-caching' : '--no-enable-prefix-caching']),
    },
  }
}
