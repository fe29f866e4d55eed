/** What runs do now, from a server. The viewer itself reads only records and knows no Temporal: its caller supplies this. */
import type { ExecutionHistory } from '../contracts/histories.types.ts'
import type { BlockerLine } from './pages.types.ts'

export interface RunSource {
  /** Bounded in time. Never throws: `why` says why there is no answer. */
  history(input: HistoryQuestion): Promise<Answer<ExecutionHistory[]>>
  /** States and times of the runs that the server knows. Bounded in time and never throws, as above. */
  runs(): Promise<Answer<RunState[]>>
  /** What a run waits for; null if it has ended. Bounded in time and never throws, as above. */
  blockers(run: string): Promise<Answer<BlockersAnswer | null>>
}

export interface RunState {
  run: string
  state: string
  startedAt: Date
  endedAt: Date | null
}

export interface HistoryQuestion {
  /** Ids that the workflow may have; the first that the server knows counts. */
  workflowIds: readonly string[]
  /** Executions that the records name, oldest first; if empty, the newest execution counts. */
  runIds: readonly string[]
}

export interface BlockersAnswer {
  blockers: BlockerLine[]
  /** Number of open workflows that were not examined. */
  notLookedAt: number
}

/** Shown if the viewer was started without a source. */
export const NO_SERVER = 'this viewer reads a directory of its own and asks no server'

export type Answer<T> = { ok: true; value: T } | { ok: false; why: string }
