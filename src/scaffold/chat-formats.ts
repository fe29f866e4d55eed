import type { ChatFormat } from '../contracts/policy.types.ts'

/** The format of Qwen and of the demo's policy. The end of turn is sampled by the policy; the newline after it is not. */
export const chatml: ChatFormat = {
  name: 'chatml',
  start: '',
  message: (role, text) => `<|im_start|>${role}\n${text}<|im_end|>\n`,
  assistantHeader: '<|im_start|>assistant\n',
  endOfTurn: '<|im_end|>',
  afterTurn: '\n',
}
