import type { ChatFormat } from '../contracts/policy.types.ts'

/**
 * Messages to text, the only place that does it. A trajectory is one growing list of token ids: the first prompt, then in
 * turns a sample and a delta. Sampled ids are appended as they came; only prompt and deltas are ever tokenised, and both
 * begin and end at special tokens, so that tokenising them alone equals tokenising them in context.
 */
export interface FirstPromptInput {
  format: ChatFormat
  systemPrompt: string
  /** Statement and prompt line (observation.ts, `firstMessage`). */
  firstMessage: string
}

export function renderFirstPrompt({ format, systemPrompt, firstMessage }: FirstPromptInput): string {
  return (
    format.start +
    format.message('system', systemPrompt) +
    format.message('user', defuseSpecialTokens(firstMessage)) +
    format.assistantHeader
  )
}

export interface DeltaInput {
  format: ChatFormat
  /** Did the policy sample its end-of-turn token? If it was cut, the token is added here as context. */
  endedTurn: boolean
  observation: string
}

export function renderDelta({ format, endedTurn, observation }: DeltaInput): string {
  return (
    (endedTurn ? '' : format.endOfTurn) +
    format.afterTurn +
    format.message('user', defuseSpecialTokens(observation)) +
    format.assistantHeader
  )
}

/**
 * Text from the world may spell `<|im_end|>` and so forge a turn: the tokenizer turns the spelling into the token. A
 * backslash after `<` breaks it visibly, for every name, because model families add special tokens of their own.
 */
export function defuseSpecialTokens(text: string): string {
  return text.replaceAll(/<(?=\|[^|<>]{1,64}\|>)/g, '<\\')
}
