/** The columns of an episode in a data set of trajectories: `EPISODE_COLUMNS`, then the ones below. */
import type { TableColumn, TableType } from '../../contracts/exports.types.ts'
import { EPISODE_COLUMNS } from './episode-columns.ts'

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
