/**
 * How often the scripted solver goes wrong, at each decision on its own. Clean demonstrations build the skill; noisy ones
 * then change only how often the right branch is taken, which is what rejection fine-tuning and RL can bring back.
 */
export interface Noise {
  /** The edit writes another operator of the family or another constant. */
  operator: number
  /** The edit hits the line before or after. */
  line: number
  /** The reply has no fence, a fence without `command`, no closing fence, or two blocks; the turn is lost. */
  format: number
  /** After the edit: scrolls or lists instead of submitting. */
  noSubmit: number
  /** Submits without an edit. */
  noEdit: number
  /** Begins with a listing, then opens a random module half of the time. */
  guess: number
  /** Searches the verb or the noun alone and opens one of the matches. */
  decoy: number
}

const FULL: Noise = {
  operator: 0.4,
  line: 0.12,
  format: 0.08,
  noSubmit: 0.08,
  noEdit: 0.06,
  guess: 0.3,
  decoy: 0.3,
}

/** Probabilities times `strength`. Below about 0.5 each, the right branch stays the most likely one. */
export function noiseOf(strength: number): Noise {
  const scale = (value: number): number => value * strength
  return {
    operator: scale(FULL.operator),
    line: scale(FULL.line),
    format: scale(FULL.format),
    noSubmit: scale(FULL.noSubmit),
    noEdit: scale(FULL.noEdit),
    guess: scale(FULL.guess),
    decoy: scale(FULL.decoy),
  }
}
