/** An episode with its turns, as trajectory exports contain it. */
import type { ActionRecord, ObservationRecord } from '../../contracts/episodes.types.ts'
import type { ChatMessage } from '../../contracts/policy.types.ts'
import type { EpisodeFacts } from './episode-columns.ts'

/**
 * Source of the first prompt's text. `recorded`: a record. `rendered`: the task and this version's scaffold, since only ids are sent to
 * token servers and stored. `unknown`: the records do not suffice.
 */
type PromptSource = 'recorded' | 'rendered' | 'unknown'

export interface ExportedTurn {
  action: ActionRecord
  /** Null if the turn never got an observation. */
  observation: ObservationRecord | null
}

export interface ExportedTrajectory {
  facts: EpisodeFacts
  /** Of the task; null if it is no longer stored. */
  statement: string | null
  /** System and user messages. */
  prompt: ChatMessage[]
  promptSource: PromptSource
  turns: ExportedTurn[]
  /** Null if no patch was captured, or if it is not UTF-8. */
  patch: string | null
}

/** JSON of valid Unicode: a lone surrogate, which strict readers refuse, becomes U+FFFD. */
export function wellFormedJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_key, entry: unknown) => (typeof entry === 'string' ? entry.toWellFormed() : entry),
    indent,
  )
}
