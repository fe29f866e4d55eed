import type { RecordedTurn } from '../run-records.ts'

/** Tokens of each turn's prompt, from the records: what tells turns apart, for they only grow. */
export function promptLengths(turns: readonly RecordedTurn[]): number[] {
  let context = 0
  return turns.map(({ action }) => {
    const prompt = context + action.promptDelta.length
    context = prompt + action.ids.length
    return prompt
  })
}
