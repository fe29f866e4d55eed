/** Something that went on from one moment to another, ms since 1970. */
export interface Interval {
  of: string
  startedMs: number
  endedMs: number
}

/**
 * Milliseconds for each name, shared equally where several go on at once: together they are the time in which anything went on, so
 * that no machine is paid twice for one second.
 */
export function shareTime(intervals: readonly Interval[]): Map<string, number> {
  const shares = new Map<string, number>()
  const marks = [...new Set(intervals.flatMap(({ startedMs, endedMs }) => [startedMs, endedMs]))].sort((a, b) => a - b)
  for (const [index, from] of marks.entries()) {
    const to = marks[index + 1]
    if (to === undefined) break
    const names = new Set(
      intervals.filter(({ startedMs, endedMs }) => startedMs <= from && endedMs >= to).map(({ of }) => of),
    )
    for (const name of names) shares.set(name, (shares.get(name) ?? 0) + (to - from) / names.size)
  }
  return shares
}
