/** Records that a rollout needs in the store before it is played, and checks of those that it must leave there. */
import { join } from 'node:path'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import { loadTasks } from '../../../src/adapters/datasets/load-tasks.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { ActionRecord, EpisodeRecord, ObservationRecord } from '../../../src/contracts/episodes.types.ts'
import { episodeId, episodeKeys, runKeys, suiteKeys } from '../../../src/contracts/keys.ts'
import type { Recipe } from '../../../src/contracts/recipe.types.ts'
import type { RolloutInput } from '../../../src/contracts/workflows.types.ts'
import { policyRef, SHA } from '../scripted-pipeline.ts'
import { readExecutions } from './scripted-sandboxes.ts'
import type { IterationPlan } from '../../../src/contracts/run-records.types.ts'
import { putPart } from '../record-examples.ts'

export interface ScaleShape {
  run: string
  tasks: number
  groupSize: number
  turns: number
  turnsPerStep: number
}

const STAGE = 'dapo-1'

/** Stores recipe, tasks and plan. @returns the input of the workflow `rollout`, with all groups at once */
export async function storeRollout(store: ArtifactStore, shape: ScaleShape): Promise<RolloutInput> {
  const { run, tasks, groupSize } = shape
  const recipe = await recipeOf(shape)
  await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: SHA, recipe })
  const [model] = await loadTasks({
    kind: 'synthetic',
    family: 'one-wrong-line',
    seed: 1,
    split: 'train',
    count: 1,
    offset: 0,
  })
  if (model === undefined) throw new Error('Expected a synthetic task')
  const taskIds = Array.from({ length: tasks }, (_, index) => `synthetic__scale-${String(index).padStart(6, '0')}`)
  for (const taskId of taskIds) await putPart(store, suiteKeys.task(SHA, taskId), { ...model, taskId })
  const key = runKeys.plan(run, STAGE, 1)
  const plan: IterationPlan = {
    schema: 'longhaul.plan/1',
    run,
    stage: STAGE,
    iteration: 1,
    suite: SHA,
    groupSize,
    taskIds,
  }
  return {
    run,
    stage: STAGE,
    iteration: 1,
    policy: policyRef(1),
    suite: SHA,
    plan: await putPart(store, key, plan),
    tasks,
    groupSize,
    maxReplacements: 2,
    maxOpenGroups: tasks,
  }
}

/** The built-in `mini` with episodes of the paper's length. */
async function recipeOf({ groupSize, turns, turnsPerStep }: ScaleShape): Promise<Recipe> {
  const { recipe } = await loadRecipe({ name: 'mini', dirs: [join(import.meta.dirname, '../../../recipes')] })
  const { reinforce, rollout } = recipe
  if (reinforce === null) throw new Error('Expected mini to reinforce')
  return {
    ...recipe,
    rollout: { ...rollout, turnsPerStep, episodeTimeoutS: 86_400 },
    reinforce: {
      ...reinforce,
      groupSize,
      stages: reinforce.stages.map((stage) => ({ ...stage, name: STAGE, maxTurns: turns + 1, context: 131_072 })),
    },
  }
}

export interface LedgerAudit {
  episodes: number
  turns: number
  /** Commands that ran in sandboxes beyond one per turn: replays after the loss of a host. */
  replayed: number
  problems: string[]
}

/** Every episode must have its end and each of its turns once, and each turn must have run once in the sandbox that answered it. */
export async function auditLedger(store: ArtifactStore, shape: ScaleShape, folders: string[]): Promise<LedgerAudit> {
  const { run, tasks, groupSize, turns } = shape
  const problems: string[] = []
  const ran = new Map<string, number>()
  let executed = 0
  for (const folder of folders) {
    for (const [name, marks] of readExecutions(folder)) {
      const seen = new Set(marks.map((mark) => mark.split('.')[0]))
      if (seen.size !== marks.length) problems.push(`${name} ran a turn twice`)
      executed += marks.length
      const episode = name.slice(0, name.lastIndexOf('+p')).replaceAll('+', '/')
      ran.set(episode, Math.max(ran.get(episode) ?? 0, marks.length))
    }
  }
  const keys = (await store.list(episodeKeys.ofRun(run))).filter((key) => key.endsWith('/result.json'))
  if (keys.length !== tasks * groupSize) problems.push(`${keys.length} episodes ended, not ${tasks * groupSize}`)
  let recorded = 0
  for (const key of keys) {
    const record = await store.readRecord<EpisodeRecord>(key)
    if (record === null) continue
    const episode = episodeId(record)
    if (record.disposition !== 'submitted' || record.turns !== turns) {
      problems.push(
        `${episode} ended ${record.disposition} after ${record.turns} turns (${record.failure ?? 'no failure'})`,
      )
    }
    if (ran.get(episode) !== turns) problems.push(`${episode} ran ${ran.get(episode) ?? 0} commands in its sandbox`)
    recorded += record.turns
  }
  problems.push(...(await oddTurns(store, shape)))
  return { episodes: keys.length, turns: recorded, replayed: executed - recorded, problems }
}

/** Checks the first and the last task: every turn must have one action and one observation. */
async function oddTurns(store: ArtifactStore, { run, tasks, groupSize, turns }: ScaleShape): Promise<string[]> {
  const problems: string[] = []
  for (const task of new Set([0, tasks - 1])) {
    for (let index = 0; index < groupSize; index++) {
      const taskId = `synthetic__scale-${String(task).padStart(6, '0')}`
      const episode = episodeId({ run, stage: STAGE, iteration: 1, taskId, index })
      for (let turn = 0; turn <= turns; turn++) {
        const action = await store.readRecord<ActionRecord>(episodeKeys.action(episode, turn))
        const observation = await store.readRecord<ObservationRecord>(episodeKeys.observation(episode, turn))
        const isThere = action !== null && observation !== null
        if (isThere !== turn < turns) problems.push(`${episode} has a wrong record of turn ${turn}`)
      }
    }
  }
  return problems
}
