import { createImageProvider } from '../../activities/gate/task-images.ts'
import { normalizeRow } from '../../adapters/datasets/normalize-row.ts'
import type { SynthesizedTask } from '../../adapters/datasets/synthetic/synthesize.ts'
import { connectEngine } from '../../adapters/docker/engine/engine.ts'
import { stackPaths } from '../../stack/paths.ts'
import { adoptLocalStack } from '../local-stack.ts'

/** Images of synthesised tasks on the engine of this machine; those that are there already cost nothing. */
export async function buildImages({
  tasks,
  signal,
  log,
}: {
  tasks: readonly SynthesizedTask[]
  signal: AbortSignal
  log: (line: string) => void
}): Promise<void> {
  await adoptLocalStack()
  const engine = await connectEngine()
  const ensureImage = createImageProvider({ engine, cacheDir: stackPaths().cacheDir, log })
  let built = 0
  await Promise.all(
    tasks.map(async ({ row }) => {
      await ensureImage(normalizeRow(row), signal)
      built += 1
      if (built % 10 === 0 || built === tasks.length) log(`images ${built} of ${tasks.length}`)
    }),
  )
}
