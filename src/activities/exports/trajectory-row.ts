import type { TableValue } from '../../contracts/exports.types.ts'
import type { ChatMessage } from '../../contracts/policy.types.ts'
import { episodeRow } from '../../report/exports/episode-columns.ts'
import type { ExportedTrajectory, ExportedTurn } from '../../report/exports/trajectory.ts'
import { createDefuse } from '../../scaffold/special-tokens.ts'

// Readers put these texts into chat templates: what the world said must not end a message there either.
const defuse = createDefuse()

/** In the order of `TRAJECTORY_COLUMNS`. */
export function trajectoryRow(trajectory: ExportedTrajectory, license: string | null): TableValue[] {
  const { facts, statement, promptSource, turns, patch } = trajectory
  return [
    ...episodeRow(facts),
    license,
    statement,
    promptSource,
    messagesOf(trajectory).map(({ role, content }) => ({ role, content })),
    turns.map(turnValue),
    patch,
  ]
}

/** The conversation as a chat model would have had it; a last turn without an answer ends with the reply. */
function messagesOf({ prompt, turns }: ExportedTrajectory): ChatMessage[] {
  return [
    ...prompt.map(({ role, content }) => ({ role, content: role === 'user' ? defuse(content) : content })),
    ...turns.flatMap(({ action, observation }): ChatMessage[] => [
      { role: 'assistant', content: action.text },
      ...(observation === null ? [] : [{ role: 'user' as const, content: defuse(observation.text) }]),
    ]),
  ]
}

function turnValue({ action, observation }: ExportedTurn): TableValue {
  const { turn, policy, command, formatError, finishReason, chat, sampleMs, promptDelta, ids, logprobs } = action
  const execution = observation?.execution ?? null
  return {
    turn,
    policy,
    command,
    format_error: formatError,
    finish_reason: chat?.ending ?? finishReason,
    sample_seconds: sampleMs / 1000,
    exit_code: execution?.exitCode ?? null,
    ended_by: execution?.reason ?? null,
    wall_seconds: execution === null ? null : execution.wallMs / 1000,
    prompt_token_ids: promptDelta,
    token_ids: ids,
    logprobs,
  }
}
