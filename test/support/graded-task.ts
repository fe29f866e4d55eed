/** For tests of gradings with scripted containers. */
import assert from 'node:assert/strict'
import { loadTasks } from '../../src/adapters/datasets/load-tasks.ts'
import type { GradeRunResult } from '../../src/contracts/sandbox.types.ts'
import type { Task } from '../../src/contracts/tasks.types.ts'

export async function loadGradedTask(): Promise<Task> {
  const heldOut = { kind: 'synthetic', family: 'one-wrong-line', seed: 9, split: 'eval', count: 1, offset: 0 } as const
  const [task] = await loadTasks(heldOut)
  assert.ok(task !== undefined)
  return task
}

/** The container facts of every scripted grading. */
export const GRADED_ON = {
  imageDigest: 'sha256:0',
  machine: { engine: '1', cgroupVersion: 2, cpuset: '0', memoryMiB: 1, startedAtMs: 0, endedAtMs: 1 },
} as const satisfies Partial<GradeRunResult>
