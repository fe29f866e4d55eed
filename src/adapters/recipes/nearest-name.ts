/** The candidate a person most likely meant; null where none is close. */
export function nearestName(name: string, candidates: readonly string[]): string | null {
  const wanted = name.toLowerCase()
  let best: { candidate: string; distance: number } | null = null
  for (const candidate of candidates) {
    const distance = editDistance(wanted, candidate.toLowerCase())
    if (best === null || distance < best.distance) best = { candidate, distance }
  }
  // A third of the letters may be wrong: more is another word.
  return best !== null && best.distance <= Math.max(1, Math.floor(wanted.length / 3)) ? best.candidate : null
}

/** Insertions, deletions, substitutions and swapped neighbours. */
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
        swapped && row > 1 && column > 1 ? cell(older, column - 2) + 1 : Number.POSITIVE_INFINITY,
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
