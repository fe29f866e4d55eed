import type { Expectation } from './faults.ts'
import type { EpisodeDigest, RunDigest } from './run-digest.ts'

/** What the faults changed and were not allowed to change, one line each. */
export function compareRuns({
  quiet,
  hurt,
  expects,
}: {
  /** The run without a fault. */
  quiet: RunDigest
  hurt: RunDigest
  expects: Expectation
}): string[] {
  const before = new Map(quiet.episodes.map((episode) => [episode.id, episode]))
  const now = new Map(hurt.episodes.map((episode) => [episode.id, episode]))
  const faults: string[] = hurt.episodes.flatMap((episode) => rewardFaults(episode))
  for (const [id, was] of before) {
    const is = now.get(id)
    if (is === undefined) {
      if (expects !== 'cancelled') faults.push(`${id} is missing`)
      continue
    }
    if (mayDiffer(is, expects)) faults.push(...prefixFaults(was, is))
    else faults.push(...episodeFaults(was, is))
  }
  for (const [id, is] of now) {
    if (before.has(id)) continue
    const replaces = expects === 'replaced' && [...now.values()].some((other) => other !== is && isLost(other))
    if (!replaces) faults.push(`${id} is not in the run without faults`)
  }
  if (expects === 'identical' && quiet.ledgers.join('\n') !== hurt.ledgers.join('\n')) {
    faults.push(`the ledger differs: ${firstDifference(quiet.ledgers.join('\n'), hurt.ledgers.join('\n'))}`)
  }
  return faults
}

function mayDiffer(episode: EpisodeDigest, expects: Expectation): boolean {
  if (expects === 'cancelled') return episode.disposition === 'cancelled'
  return expects === 'replaced' && isLost(episode)
}

/** Without a verdict, or with none that counts. */
function isLost({ result }: EpisodeDigest): boolean {
  return /"verdict":(null|"could-not-grade")/.test(result)
}

/** An episode that infrastructure ended has nothing from which a reward could be made. */
function rewardFaults({ id, disposition, result }: EpisodeDigest): string[] {
  const isOurs = disposition === 'infra' || disposition === 'cancelled' || disposition === 'stale'
  return isOurs && !result.includes('"verdict":null') ? [`${id} ended as ${disposition} and has a verdict`] : []
}

/** What was committed before the end is what would have been committed. */
function prefixFaults(was: EpisodeDigest, is: EpisodeDigest): string[] {
  return is.turns.flatMap((turn, index) => (turn === was.turns[index] ? [] : [turnFault(was, is, index)]))
}

function episodeFaults(was: EpisodeDigest, is: EpisodeDigest): string[] {
  const faults: string[] = []
  if (was.turns.length !== is.turns.length) {
    faults.push(
      `${is.id} has ${is.turns.length} turns instead of ${was.turns.length} (${is.disposition} ${is.failure})`,
    )
  }
  faults.push(...prefixFaults(was, { ...is, turns: is.turns.slice(0, was.turns.length) }))
  for (const part of ['verdict', 'patch', 'result'] as const) {
    if (was[part] !== is[part]) faults.push(`${is.id}: the ${part} differs: ${firstDifference(was[part], is[part])}`)
  }
  return faults
}

function turnFault(was: EpisodeDigest, is: EpisodeDigest, index: number): string {
  return `${is.id} turn ${index} differs: ${firstDifference(was.turns[index] ?? null, is.turns[index] ?? null)}`
}

function firstDifference(was: string | null, is: string | null): string {
  if (was === null || is === null) return `${was === null ? 'none' : 'some'} became ${is === null ? 'none' : 'some'}`
  let at = 0
  while (at < was.length && was[at] === is[at]) at++
  const around = (text: string): string => text.slice(Math.max(0, at - 40), at + 60)
  return `…${around(was)}… became …${around(is)}…`
}
