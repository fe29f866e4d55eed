/**
 * Harbor's Agent Trajectory Interchange Format, version 1.7: it covers all that is exported here and has more readers than 1.8, which adds
 * audio.
 * @see Harbor, RFC 0001, and its models in `harbor.models.trajectories`
 */
import { episodeObject } from './episode-columns.ts'
import type { ExportedTrajectory, ExportedTurn } from './trajectory.ts'

export const ATIF_VERSION = 'ATIF-v1.7'

const NOTES: Record<ExportedTrajectory['promptSource'], string | null> = {
  recorded: null,
  rendered:
    'The first prompt was stored as token ids (prompt_token_ids of the first agent step). The texts of the system and user steps are made again from the task and the scaffold.',
  unknown: 'The records do not hold the text of the first prompt.',
}

/** Omits empty keys: the format's readers forbid unknown keys and take absent ones for null. */
export function toAtif({ facts, prompt, promptSource, turns }: ExportedTrajectory): object {
  const { record, spec } = facts
  const model = record?.policy ?? spec?.policy
  const first = prompt.length === 0 ? [{ role: 'user', content: '' }] : prompt
  const opening = first.map(({ role, content }, at) => ({ step_id: at + 1, source: role, message: content }))
  let context = 0
  const steps = turns.map((turn, at) => {
    const before = context + turn.action.promptDelta.length
    context = before + turn.action.ids.length
    return toStep(turn, { stepId: opening.length + at + 1, before, model })
  })
  const notes = NOTES[promptSource]
  return {
    schema_version: ATIF_VERSION,
    session_id: facts.run,
    trajectory_id: facts.episode,
    agent: present({ name: 'longhaul', version: spec?.scaffold ?? 'unknown', model_name: model }),
    steps: [...opening, ...steps],
    ...(notes === null ? {} : { notes }),
    final_metrics: present({
      total_prompt_tokens: record?.usage?.promptTokens,
      total_completion_tokens: record?.usage?.completionTokens ?? record?.sampledTokens,
      total_cached_tokens: record?.usage?.cachedTokens,
      total_steps: opening.length + steps.length,
    }),
    extra: { longhaul: present(episodeObject(facts)) },
  }
}

interface StepPlace {
  stepId: number
  /** Length of the context before this sample, in tokens. */
  before: number
  model: string | undefined
}

function toStep({ action, observation }: ExportedTurn, { stepId, before, model }: StepPlace): object {
  const { turn, text, command, chat, policy, finishReason, formatError, sampledAtMs, sampleMs } = action
  const call = `turn-${turn}`
  return present({
    step_id: stepId,
    timestamp: new Date(sampledAtMs).toISOString(),
    source: 'agent',
    model_name: policy === model ? undefined : policy,
    message: text,
    tool_calls:
      command === null ? undefined : [{ tool_call_id: call, function_name: 'command', arguments: { command } }],
    observation:
      observation === null
        ? undefined
        : {
            results: [
              present({
                source_call_id: command === null ? undefined : call,
                content: observation.text,
                extra: observation.execution === null ? undefined : executionOf(observation.execution),
              }),
            ],
          },
    metrics: metricsOf(action, before),
    llm_call_count: 1,
    extra: present({
      turn,
      finish_reason: chat?.ending ?? finishReason,
      format_error: formatError,
      sample_seconds: sampleMs / 1000,
      model: chat?.model,
      // Only the delta: whole prompts would grow the file with the square of the turns.
      prompt_delta_token_ids: turn === 0 || action.promptDelta.length === 0 ? undefined : action.promptDelta,
    }),
  })
}

function metricsOf(action: ExportedTurn['action'], before: number): object {
  const { chat, ids, logprobs, promptDelta, turn } = action
  if (chat !== undefined) {
    const { promptTokens, completionTokens, cachedTokens } = chat.usage ?? {}
    return present({ prompt_tokens: promptTokens, completion_tokens: completionTokens, cached_tokens: cachedTokens })
  }
  // Records hold null where a server sent no finite number, which the format cannot express.
  const isFinite = (logprobs as (number | null)[]).every((logprob) => logprob !== null)
  return present({
    prompt_tokens: before,
    completion_tokens: ids.length,
    prompt_token_ids: turn === 0 ? promptDelta : undefined,
    completion_token_ids: ids,
    logprobs: isFinite ? logprobs : undefined,
  })
}

function executionOf(execution: NonNullable<NonNullable<ExportedTurn['observation']>['execution']>): object {
  const { exitCode, reason, outputBytes, wallMs, oomKilled } = execution
  return present({
    exit_code: exitCode,
    ended_by: reason,
    output_bytes: outputBytes,
    wall_seconds: wallMs / 1000,
    out_of_memory: oomKilled || undefined,
  })
}

function present(values: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== null))
}
