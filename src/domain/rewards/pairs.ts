import type { GroupMember } from './group-selection.ts'

/** Two siblings, by episode: one that resolved its task and one that did not. */
export interface TrajectoryPair {
  chosen: string
  rejected: string
}

/**
 * Pairs the episodes of one group, each at most once: the successes with the highest rewards with the failures with the lowest, in
 * index order for equal rewards. Episodes left over on the longer side have no pair. @see DPO, arXiv 2305.18290 section 4
 */
export function pairMembers(members: readonly GroupMember[]): TrajectoryPair[] {
  const chosen = members.filter(({ outcome }) => outcome === 1).sort((a, b) => b.reward - a.reward)
  const rejected = members.filter(({ outcome }) => outcome === 0).sort((a, b) => a.reward - b.reward)
  return chosen.flatMap(({ episode }, index) => {
    const other = rejected[index]
    return other === undefined ? [] : [{ chosen: episode, rejected: other.episode }]
  })
}
