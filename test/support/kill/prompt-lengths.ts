import type { RecordedTurn } from '../run-records.ts'

/** Prompt tokens of each turn, from the records. They identify turns, because they only grow. */
export function promptLengths(turns: readonly RecordedTurn[]): number[] {
  let context = 0
  return turns.map(({ action }) => {
    const prompt = context + action.promptDelta.length
    context = prompt + action.ids.length
    return prompt
  })
}
