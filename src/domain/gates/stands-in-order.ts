/**
 * Whether text matches the patterns one behind the other, whatever stands between them. One pattern with a star between two
 * words takes squared time where the first occurs often and the second never; this looks for each of them once.
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
