/** What runs do now, where a server is at hand. The viewer itself reads records and knows no Temporal: who starts it gives it this. */
import type { ExecutionHistory } from '../contracts/histories.types.ts'
import type { BlockerLine } from './pages.types.ts'

export interface RunSource {
  /** Bounded in time. Never throws: `why` says what kept it from an answer. */
  history(input: HistoryQuestion): Promise<Answer<ExecutionHistory[]>>
  /** What a run waits for; null for one that has ended. Bounded and never throws, as above. */
  blockers(run: string): Promise<Answer<BlockersAnswer | null>>
}

export interface HistoryQuestion {
  /** Ids that the workflow may have; the first that the server knows is it. */
  workflowIds: readonly string[]
  /** Executions that the records name, the oldest first; where there are none, the newest one is meant. */
  runIds: readonly string[]
}

export interface BlockersAnswer {
  blockers: BlockerLine[]
  /** Open workflows beyond those that were looked at. */
  notLookedAt: number
}

/** Why a page has no answer where the viewer was started without a source. */
export const NO_SERVER = 'this viewer reads a directory of its own and asks no server'

export type Answer<T> = { ok: true; value: T } | { ok: false; why: string }
