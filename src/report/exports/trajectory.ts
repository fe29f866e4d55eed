/** An episode with its turns, as exports of trajectories have it. */
import type { ActionRecord, ObservationRecord } from '../../contracts/episodes.types.ts'
import type { ChatMessage } from '../../contracts/policy.types.ts'
import type { EpisodeFacts } from './episode-columns.ts'

/**
 * Where the text of the first prompt comes from: a record, or the task and the scaffold of this version, because token servers are
 * sent ids and those alone are stored; `unknown` where the records do not suffice.
 */
type PromptSource = 'recorded' | 'rendered' | 'unknown'

export interface ExportedTurn {
  action: ActionRecord
  /** Null where the turn never got an answer. */
  observation: ObservationRecord | null
}

export interface ExportedTrajectory {
  facts: EpisodeFacts
  /** Of the task; null where that is not stored any more. */
  statement: string | null
  /** System and user. */
  prompt: ChatMessage[]
  promptSource: PromptSource
  turns: ExportedTurn[]
  /** Null where nothing was captured, and where it is not UTF-8. */
  patch: string | null
}

/** JSON whose texts are all Unicode: a lone half of a surrogate pair, which strict readers refuse, becomes U+FFFD. */
export function wellFormedJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_key, entry: unknown) => (typeof entry === 'string' ? entry.toWellFormed() : entry),
    indent,
  )
}
