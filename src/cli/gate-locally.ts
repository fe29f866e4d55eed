import { prepareSuite } from '../activities/control/prepare-suite.ts'
import { type GateRecord, gateTask } from '../activities/sandbox/gate-task.ts'
import { createImageProvider } from '../activities/sandbox/task-images.ts'
import { createSuiteReader, createTaskReader } from '../activities/stored-tasks.ts'
import { loadTasks } from '../adapters/datasets/load-tasks.ts'
import { connectEngine } from '../adapters/docker/engine.ts'
import { createDockerSandboxHost } from '../adapters/docker/sandbox-host.ts'
import { createSlots } from '../adapters/docker/slots.ts'
import { suiteKeys } from '../contracts/keys.ts'
import type { Recipe } from '../contracts/recipe.types.ts'
import { decideAdmission } from '../domain/gate-rules.ts'
import { stackHostId } from '../stack/environment.ts'
import { stackPaths } from '../stack/paths.ts'
import { adoptLocalStack, openStore } from './local-stack.ts'

export interface GateLocallyInput {
  recipe: Recipe
  which: 'train' | 'heldOut'
  signal: AbortSignal
  log: (line: string) => void
}

export interface GateLocallyResult {
  suite: string
  tasks: number
  admitted: number
  refused: { taskId: string; reason: string }[]
}

/** As many containers as the workers grade at once. */
const AT_ONCE = 4

/**
 * The gate of a suite on this machine's engine, without a server. Each check is a stored record under the suite's hash: what a
 * run has checked already is not repeated here, nor the other way round, and an interrupted gate goes on where it stopped.
 */
export async function gateLocally({ recipe, which, signal, log }: GateLocallyInput): Promise<GateLocallyResult> {
  await adoptLocalStack()
  const store = await openStore()
  const engine = await connectEngine()
  const { name, cacheDir } = stackPaths()
  const sandbox = createDockerSandboxHost({ engine, hostId: stackHostId(name), hostQueue: '', maxStarting: AT_ONCE })
  try {
    const { suite } = await prepareSuite({ store, loadTasks, recipe }, which)
    const suites = createSuiteReader(store)
    const { taskIds } = await suites(suite)
    const { repeats } = recipe.data.gate
    const deps = {
      store,
      sandbox,
      recipe,
      suites,
      tasks: createTaskReader(store),
      ensureImage: createImageProvider({ engine, cacheDir, log }),
      owner: `gate/${process.pid}`,
    }
    const slots = createSlots(AT_ONCE)
    let done = 0
    const checkTask = (index: number): Promise<void> =>
      slots.use(async () => {
        signal.throwIfAborted()
        for (let repeat = 1; repeat <= repeats; repeat++) {
          for (const check of ['gold', 'empty'] as const) {
            await gateTask(deps, { run: 'gate', suite, index, check, repeat }, signal)
          }
        }
        done += 1
        if (done % 10 === 0 || done === taskIds.length) log(`gated ${done} of ${taskIds.length}`)
      })
    await allSettledThenThrow(taskIds.map((_, index) => checkTask(index)))

    const refused: GateLocallyResult['refused'] = []
    for (const taskId of taskIds) {
      const keys = Array.from({ length: repeats }, (_, at) =>
        (['gold', 'empty'] as const).map((check) => suiteKeys.gate(suite, taskId, check, at + 1)),
      ).flat()
      const records = await Promise.all(keys.map((key) => store.readRecord<GateRecord>(key)))
      const admission = decideAdmission({ checks: records.filter((record) => record !== null), repeats })
      if (!admission.admitted) refused.push({ taskId, reason: admission.reason })
    }
    return { suite, tasks: taskIds.length, admitted: taskIds.length - refused.length, refused }
  } finally {
    sandbox.dispose()
  }
}

/** The first error only after every sibling has ended: none of them may outlive the sandbox host. */
async function allSettledThenThrow(work: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(work)
  for (const result of results) if (result.status === 'rejected') throw result.reason
}
