import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { policyKeys } from '../../../src/contracts/keys.ts'

/** Optimizer steps that the checkpoints of these policies record, in order: what the trainer did, not what was planned. */
export async function trainedSteps(store: ArtifactStore, policies: readonly string[]): Promise<number[]> {
  const steps: number[] = []
  for (const version of new Set(policies)) {
    if (version.startsWith('v000000-')) continue
    const metrics = await readFile(join(store.path(policyKeys.checkpoint(version)), 'metrics.jsonl'), 'utf8')
    const lines = metrics.split('\n').filter((line) => line !== '')
    steps.push(...lines.map((line) => (JSON.parse(line) as { global_step: number }).global_step))
  }
  return steps
}
