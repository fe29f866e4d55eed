import type { ToolSettings } from './sandbox.types.ts'

/** What may differ between agents that share the same tools: texts, window, path form, output cap. */
export interface ScaffoldProfile {
  name: string
  systemPrompt: string
  /** Appended to the system prompt only while a base policy collects RFT data (paper, App. F). */
  demonstration: string | null
  /** `full`: statement, git advice, checklist, shell note; `brief`: statement alone. The prompt line always follows. */
  firstMessage: 'full' | 'brief'
  tools: ToolSettings
  /** Longest observation, in characters (UTF-16 code units); head and tail are kept, the middle is marked. */
  observationChars: number
}
