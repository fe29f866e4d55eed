/** The tasks of the comparison: synthetic ones in the form of SWE-bench's rows, or real rows, with images in the engine that all
 *  runners use. */
import { join } from 'node:path'
import { normalizeRow } from '../../../src/adapters/datasets/normalize-row.ts'
import { readRows } from '../../../src/adapters/datasets/read-source.ts'
import type { Engine } from '../../../src/adapters/docker/engine/engine.ts'
import { buildTaskImages } from '../../../src/adapters/task-images/build-task-images.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { buildLayoutImages, type LayoutTask, layoutTasks } from '../../../test/support/layouts/layout-tasks.ts'
import type { PeerTask } from './script.ts'

/** Applies, but repairs nothing. */
const WRONG_PATCH = `diff --git a/NOTES.md b/NOTES.md
new file mode 100644
index 0000000..ce01362
--- /dev/null
+++ b/NOTES.md
@@ -0,0 +1 @@
+hello
`

/** Every third agent submits a patch that repairs nothing, which exposes a grader that always gives the same verdict. */
function finish(row: Record<string, unknown>, index: number): PeerTask {
  const task = normalizeRow(row)
  const isWrong = index % 3 === 1
  return {
    row,
    task,
    patch: isWrong ? WRONG_PATCH : task.goldPatch,
    expected: isWrong ? 'unresolved' : 'resolved',
  }
}

/** @param count tasks with the first columns of SWE-bench, which every runner's own tools read */
export async function syntheticTasks({ engine, count }: { engine: Engine; count: number }): Promise<PeerTask[]> {
  const layout: LayoutTask[] = []
  for (let series = 1; layout.length < count; series += 1) {
    const all = layoutTasks({ series, layouts: ['conda'] })
    layout.push(...all.filter(({ task }) => task.gradingProfile === 'swebench-4.1'))
  }
  const tasks = layout.slice(0, count)
  await buildLayoutImages({ engine, cacheDir: join(stackPaths().cacheDir, 'images'), tasks })
  // All tasks have the same statement, and the scripted model identifies a task by it.
  return tasks.map(({ row }, index) =>
    finish({ ...row, problem_statement: `${String(row['instance_id'])}: ${String(row['problem_statement'])}` }, index),
  )
}

export interface RealTasksInput {
  engine: Engine
  rows: string
  repos: string
  only: ReadonlySet<string>
  count: number
  signal: AbortSignal
}

export async function realTasks({ engine, rows, repos, only, count, signal }: RealTasksInput): Promise<PeerTask[]> {
  const read = (await readRows(rows)).map(({ row, label }) => ({ row, task: normalizeRow(row, { label }) }))
  const wanted = read.filter(({ task }) => only.size === 0 || only.has(task.taskId)).slice(0, count)
  const images = await buildTaskImages({
    engine,
    tasks: wanted,
    repositories: repos,
    base: null,
    network: null,
    jobs: 1,
    cacheDir: stackPaths().cacheDir,
    log: (text) => console.error(text),
    onResult: (image) => console.error(`${image.taskId}: ${image.did}, ${image.seconds.toFixed(0)} s`),
    signal,
  })
  const failed = images.filter(({ did }) => did === 'failed').map(({ taskId }) => taskId)
  if (failed.length > 0) throw new Error(`Expected an image for every task, got none for ${failed.join(', ')}`)
  return wanted.map(({ row }, index) => finish(row as Record<string, unknown>, index))
}
