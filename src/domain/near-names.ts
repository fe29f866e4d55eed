/** Returns the candidate that the user most likely meant; null if none is close. */
export function nearestName(name: string, candidates: readonly string[]): string | null {
  return nearNames(name, candidates, 1)[0] ?? null
}

/** Returns at most `limit` candidates that the user may have meant, the nearest first. */
export function nearNames(name: string, candidates: readonly string[], limit = Infinity): string[] {
  const wanted = name.toLowerCase()
  // Up to a third of the letters may differ; beyond that it is another word.
  const most = Math.max(1, Math.floor(wanted.length / 3))
  return candidates
    .map((candidate) => ({ candidate, distance: editDistance(wanted, candidate.toLowerCase()) }))
    .filter(({ distance }) => distance <= most)
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, limit)
    .map(({ candidate }) => candidate)
}

/** Counts insertions, deletions, substitutions and swapped neighbours. */
function editDistance(from: string, to: string): number {
  let older: number[] = []
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const substitution = cell(previous, column - 1) + (from[row - 1] === to[column - 1] ? 0 : 1)
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      current[column] = Math.min(
        substitution,
        cell(previous, column) + 1,
        cell(current, column - 1) + 1,
        swapped ? cell(older, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    older = previous
    previous = current
  }
  return cell(previous, to.length)
}

function cell(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY
}
