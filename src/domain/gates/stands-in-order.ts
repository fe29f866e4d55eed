/**
 * Whether the patterns match in this order, with any text between them. One pattern with a star between two words takes quadratic
 * time where the first occurs often and the second never; this searches for each pattern once.
 */
export function standsInOrder(text: string, ...patterns: readonly RegExp[]): boolean {
  let from = 0
  for (const pattern of patterns) {
    const rest = text.slice(from)
    const match = pattern.exec(rest)
    if (match === null) return false
    from += match.index + match[0].length
  }
  return true
}
