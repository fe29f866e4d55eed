import type { ChatFormat, ChatFormatName } from '../contracts/policy.types.ts'
import { createDefuse, type Defuse } from './special-tokens.ts'

/**
 * Messages to text, the only place that does it. A trajectory is one growing list of token ids: the first prompt, then in
 * turns a sample and a delta. Sampled ids are appended as they came; only prompt and deltas are ever tokenised, and both
 * begin and end at special tokens, so that tokenising them alone equals tokenising them in context.
 */
interface FirstPromptInput {
  format: ChatFormat
  systemPrompt: string
  /** Statement and prompt line (observation.ts, `firstMessage`). */
  firstMessage: string
  /** Breaks what text may not spell. @default the tokens that are known of any format */
  defuse?: Defuse
}

const defuseKnown = createDefuse()

export function renderFirstPrompt({
  format,
  systemPrompt,
  firstMessage,
  defuse = defuseKnown,
}: FirstPromptInput): string {
  return (
    format.start +
    format.message('system', systemPrompt) +
    format.message('user', defuse(firstMessage)) +
    format.assistantHeader
  )
}

interface DeltaInput {
  format: ChatFormat
  /** Did the policy sample its end-of-turn token? If it was cut, the token is added here as context. */
  endedTurn: boolean
  observation: string
  /** As for the first prompt. */
  defuse?: Defuse
}

export function renderDelta({ format, endedTurn, observation, defuse = defuseKnown }: DeltaInput): string {
  return (
    (endedTurn ? '' : format.endOfTurn) +
    format.afterTurn +
    format.message('user', defuse(observation)) +
    format.assistantHeader
  )
}

/** The format of Qwen and of the demo's policy. The end of turn is sampled by the policy; the newline after it is not. */
export const chatml: ChatFormat = {
  name: 'chatml',
  start: '',
  message: (role, text) => `<|im_start|>${role}\n${text}<|im_end|>\n`,
  assistantHeader: '<|im_start|>assistant\n',
  endOfTurn: '<|im_end|>',
  afterTurn: '\n',
}

/** The format of Llama from 3 on. Its templates trim what messages say and may put the date before the system prompt; neither is done here. */
const llama3: ChatFormat = {
  name: 'llama3',
  start: '<|begin_of_text|>',
  message: (role, text) => `<|start_header_id|>${role}<|end_header_id|>\n\n${text}<|eot_id|>`,
  assistantHeader: '<|start_header_id|>assistant<|end_header_id|>\n\n',
  endOfTurn: '<|eot_id|>',
  afterTurn: '',
}

export const chatFormats: Readonly<Record<ChatFormatName, ChatFormat>> = { chatml, llama3 }
