import type { ChatFormat, ChatFormatName } from '../contracts/policy.types.ts'
import { createDefuse, type Defuse } from './special-tokens.ts'

/**
 * Renders messages as text; no other code does. A trajectory is one growing list of token ids: the first prompt, then samples and
 * deltas in turn. Sampled ids are appended unchanged. Only prompt and deltas are tokenised, and both begin and end at special tokens,
 * so tokenising them alone equals tokenising them in context.
 */
interface FirstPromptInput {
  format: ChatFormat
  systemPrompt: string
  /** Statement and prompt line (observation.ts, `firstMessage`). */
  firstMessage: string
  /** Breaks spellings of special tokens. @default the known tokens of all formats */
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
  /** Whether the policy sampled its end-of-turn token. If the reply was cut off, the token is added here as context. */
  endedTurn: boolean
  observation: string
  /** As in the first prompt. */
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

/** The format of Qwen and of the demo's policy. The policy samples the end of turn, but not the newline after it. */
export const chatml: ChatFormat = {
  name: 'chatml',
  start: '',
  message: (role, text) => `<|im_start|>${role}\n${text}<|im_end|>\n`,
  assistantHeader: '<|im_start|>assistant\n',
  endOfTurn: '<|im_end|>',
  afterTurn: '\n',
}

/** The format of Llama 3 and later. Its templates trim messages and may put the date before the system prompt; this renderer does
 *  neither. */
const llama3: ChatFormat = {
  name: 'llama3',
  start: '<|begin_of_text|>',
  message: (role, text) => `<|start_header_id|>${role}<|end_header_id|>\n\n${text}<|eot_id|>`,
  assistantHeader: '<|start_header_id|>assistant<|end_header_id|>\n\n',
  endOfTurn: '<|eot_id|>',
  afterTurn: '',
}

export const chatFormats: Readonly<Record<ChatFormatName, ChatFormat>> = { chatml, llama3 }
