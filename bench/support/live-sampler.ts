/** vLLM without a GPU as the sampler of a run, started, restarted and ended by Longhaul. */
import { launchVllmCpu } from '../../src/stack/setup/vllm-cpu.ts'
import { findVllm } from '../../test/support/live-engine/vllm.ts'

export interface LiveSamplerOptions {
  /** Dtype of the exported weights and of the engine. @default float32 */
  dtype?: 'float32' | 'bfloat16'
  /** @default true */
  prefixCaching?: boolean
}

/**
 * Overrides for a recipe of the embedded server. Prompts are prefilled in one chunk, because this build exits on a seeded request
 * that is prefilled in chunks.
 * @throws Error if this machine cannot run vLLM
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
