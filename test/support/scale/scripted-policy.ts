/**
 * A policy that answers at once: a thought and a command per turn, `submit` in the last one. Token counts are those of real turns.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { PolicyClient } from '../../../src/contracts/policy.types.ts'

const FIRST = 400
const DELTA = 160
const REPLY = 90
const REPLY_IDS = Array.from({ length: REPLY }, (_, index) => 1_000 + index * 7)
const LOGPROBS = REPLY_IDS.map((id) => -Math.abs(Math.sin(id)))
const THOUGHT =
  'The failing test compares the parsed header with the one that was written, so the reader must be at fault. '

export interface ScriptedPolicyOptions {
  /** Turns per episode; the last one submits. */
  turns: number
  /** Duration of a sample. */
  thinkMs: number
  /** The first turn of each episode is answered after that. @default at once */
  start?: () => Promise<void>
}

/** Answers any request: the length of the conversation determines the turn. */
export function createScriptedPolicy({ turns, thinkMs, start }: ScriptedPolicyOptions): PolicyClient {
  return {
    async sample({ policy, promptIds }) {
      const turn = Math.round((promptIds.length - FIRST) / (DELTA + REPLY))
      if (turn === 0) await start?.()
      if (thinkMs > 0) await sleep(thinkMs)
      const command = turn + 1 < turns ? `sed -n ${turn + 1},${turn + 20}p module.py` : 'submit'
      const text = `${THOUGHT}\n\n\`\`\`command\n${command}\n\`\`\``
      return { ids: REPLY_IDS, logprobs: LOGPROBS, text, finishReason: 'stop', policy }
    },
    async tokenize({ text }) {
      const length = text.length < 20 ? 1 : text.includes('<|im_start|>system') ? FIRST : DELTA
      return Array.from({ length }, (_, index) => 2_000 + index)
    },
    async load() {},
    async score({ ids }) {
      return ids.slice(1).map(() => -1)
    },
    async release() {},
    async served() {
      return []
    },
  }
}
