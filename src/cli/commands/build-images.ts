import { createImageProvider } from '../../activities/gate/task-images.ts'
import { normalizeRow } from '../../adapters/datasets/normalize-row.ts'
import type { SynthesizedTask } from '../../adapters/datasets/synthetic/synthesize.ts'
import { connectEngine } from '../../adapters/docker/engine/engine.ts'
import { stackPaths } from '../../stack/paths.ts'
import { adoptLocalStack } from '../local-stack.ts'

/** Builds images of synthesised tasks on this machine's engine; existing ones cost nothing. */
export async function buildImages({
  tasks,
  signal,
  log,
  onBuilt,
}: {
  tasks: readonly Pick<SynthesizedTask, 'row'>[]
  signal: AbortSignal
  log: (line: string) => void
  onBuilt: () => void
}): Promise<void> {
  await adoptLocalStack()
  const engine = await connectEngine()
  const ensureImage = createImageProvider({ engine, cacheDir: stackPaths().cacheDir, log })
  await Promise.all(
    tasks.map(async ({ row }) => {
      await ensureImage(normalizeRow(row), signal)
      onBuilt()
    }),
  )
}
