/** A key path into a recipe: names and list positions. */
export type KeyPath = (string | number)[]

export interface RecipeProblem {
  rule: 'syntax' | 'missing' | 'type' | 'range' | 'choice' | 'unknown-key' | 'combination'
  path: KeyPath
  /** What was expected and what came, without the path. */
  message: string
  hint: string | null
  /** Which key to point at: the value (default) or, for unknown keys, the key itself. */
  at: 'value' | 'key'
}

export interface TextPosition {
  /** 1-based. */
  line: number
  column: number
}

/** `evaluate.attempts`, `reinforce.stages[0].clip`. */
export function showPath(path: KeyPath): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : text === '' ? key : `${text}.${key}`),
    '',
  )
}
