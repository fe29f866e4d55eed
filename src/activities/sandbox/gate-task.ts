import type { VerdictKind } from '../../contracts/episodes.types.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { isGateCheckOk } from '../../domain/gate-rules.ts'
import type { SuiteReader, TaskReader } from '../stored-tasks.ts'
import { sandboxLimits } from './open-sandbox.ts'
import { type GradingDependencies, runGrading } from './run-grading.ts'

export interface GateInput {
  run: string
  suite: string
  index: number
  check: 'gold' | 'empty'
  repeat: number
}

/** What one check of a task found. Not tied to a run: a suite gated once stays gated. */
export interface GateRecord {
  schema: 'longhaul.gate/1'
  taskId: string
  check: 'gold' | 'empty'
  repeat: number
  ok: boolean
  verdict: VerdictKind
  reason: string | null
  gradeMs: number
  /** What it was checked in; absent in older records. */
  imageDigest?: string
}

export async function gateTask(
  deps: GradingDependencies & {
    recipe: Recipe
    tasks: TaskReader
    suites: SuiteReader
    owner: string
    ownerRun?: string
  },
  input: GateInput,
  signal: AbortSignal,
): Promise<{ ok: boolean }> {
  const { suite, index, check, repeat } = input
  const taskId = (await deps.suites(suite)).taskIds[index]
  if (taskId === undefined) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'The suite has no such task',
      details: { suite, index },
    })
  }
  const key = suiteKeys.gate(suite, taskId, check, repeat)
  const known = await deps.store.readRecord<GateRecord>(key)
  if (known !== null) return { ok: known.ok }

  const task = await deps.tasks({ suite, taskId })
  const { kind, reason, gradeMs, image } = await runGrading(
    deps,
    {
      run: input.run,
      episode: `gate/${suite.slice(0, 12)}/${taskId}/${check}-${repeat}`,
      owner: deps.owner,
      ...(deps.ownerRun === undefined ? {} : { ownerRun: deps.ownerRun }),
      role: 'gate',
      limits: sandboxLimits(deps.recipe),
      patch: check === 'gold' ? new TextEncoder().encode(task.goldPatch) : new Uint8Array(),
      task,
      logKey: `${key}.log`,
    },
    signal,
  )
  const ok = isGateCheckOk({ check, verdict: kind })
  const { record } = await deps.store.claimRecord<GateRecord>(key, {
    schema: 'longhaul.gate/1',
    taskId,
    check,
    repeat,
    ok,
    verdict: kind,
    reason,
    gradeMs,
    imageDigest: image,
  })
  return { ok: record.ok }
}
