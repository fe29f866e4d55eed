/** An episode with its turns, as trajectory exports contain it. */
import type { ActionRecord, ObservationRecord } from '../../contracts/episodes.types.ts'
import type { ChatMessage } from '../../contracts/policy.types.ts'
import { EPISODE_COLUMNS, type EpisodeFacts } from './episode-columns.ts'
import type { TableColumn, TableType } from '../../contracts/exports.types.ts'

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

// The columns of an episode in a data set of trajectories: `EPISODE_COLUMNS`, then the ones below.

interface DescribedColumn extends TableColumn {
  /** One line for the card. */
  says: string
}

const MESSAGE: TableType = { struct: { role: 'text', content: 'text' } }

const TURN: TableType = {
  struct: {
    turn: 'int32',
    policy: 'text',
    command: 'text',
    format_error: 'text',
    finish_reason: 'text',
    sample_seconds: 'number',
    exit_code: 'int32',
    ended_by: 'text',
    wall_seconds: 'number',
    prompt_token_ids: { list: 'int32' },
    token_ids: { list: 'int32' },
    logprobs: { list: 'float32' },
  },
}

const MORE_TRAJECTORY_COLUMNS: readonly DescribedColumn[] = [
  { name: 'license', type: 'text', says: 'of the task’s repository, as the data set says' },
  { name: 'statement', type: 'text', says: 'of the task, as published' },
  {
    name: 'prompt_source',
    type: 'text',
    says: '`recorded`, `rendered` (made again from task and scaffold), `unknown`',
  },
  {
    name: 'messages',
    type: { list: MESSAGE },
    says: 'system, user, then a reply and its observation for each turn',
  },
  {
    name: 'trajectory',
    type: { list: TURN },
    says: 'for each turn, beside the texts: command, end, times; ids that came before the sample, sampled ids, their log-probabilities',
  },
  { name: 'patch', type: 'text', says: 'the submission; empty where there is none, or where it is not UTF-8' },
]

export const TRAJECTORY_COLUMNS: readonly DescribedColumn[] = [...EPISODE_COLUMNS, ...MORE_TRAJECTORY_COLUMNS]
