/** Records of a run beside its episodes: who claimed its name, what it resolved to, and what it planned. */
import type { RunKind } from './activities.types.ts'
import type { Recipe } from './recipe.types.ts'

/** The holder of a run's name. Claimed by put-if-absent, so that two roots started in the same second get two names. */
export interface RunClaim {
  schema: 'longhaul.run/1'
  run: string
  kind: RunKind
  recipe: string
  recipeHash: string
  workflowId: string
  /** First execution of the chain, which survives continue-as-new and reset. */
  firstExecutionRunId: string
  /** ISO time at which the run got its name; absent in claims of earlier versions. */
  startedAt?: string
  /** Name of an evaluation that was started alone; absent for other kinds, and in claims of earlier versions. */
  evaluation?: string
  /** What an evaluation that was started alone evaluates, as asked for; absent like `evaluation`. */
  policy?: string
}

/** One execution of a root that plays a run. */
export interface Player {
  workflowId: string
  runId: string
}

/** Claimed by put-if-absent: the first player of a run is the one that claimed its name, and each later one takes the next number. */
export interface PlayerRecord extends Player {
  schema: 'longhaul.player/1'
  run: string
}

/** The resolved recipe of a run, as `resolveRecipe` stored it. */
export interface StoredRecipe {
  schema: 'longhaul.recipe/1'
  /** SHA-256 of the resolved recipe's canonical JSON. */
  hash: string
  recipe: Recipe
}

export interface IterationPlan {
  schema: 'longhaul.plan/1'
  run: string
  stage: string
  iteration: number
  suite: string
  groupSize: number
  taskIds: string[]
}

/** The tasks of one refill round, and the counts that decided them. */
export interface RefillPlan extends IterationPlan {
  round: number
  /** Groups of the iteration with a spread, and without one. */
  kept: number
  withoutSpread: number
}

export interface RemovalBegun {
  schema: 'longhaul.removal/1'
  run: string
  /** Both are absent in marks of earlier versions. */
  id?: string
  begunAtMs?: number
}

/** A recipe that was pushed under a name. Every control worker sees the same text, which never changes. */
export interface PushedRecipe {
  schema: 'longhaul.pushed-recipe/1'
  name: string
  text: string
}

/** A later command that goes on with a removal. */
export interface RemovalTakenUp {
  id: string
  atMs: number
}

/** A sign of life of a removal, its end, or that it was given up. The key tells which and when. */
export interface RemovalSign {
  run: string
}
