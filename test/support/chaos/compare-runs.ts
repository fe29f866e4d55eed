import type { Expectation } from './faults.ts'
import type { EpisodeDigest, JobDigest, RunDigest } from './run-digest.ts'

export interface CompareInput {
  /** The run without faults. */
  quiet: RunDigest
  hurt: RunDigest
  expects: Expectation
  /** Episodes of the same tasks with higher indexes, played without faults: what a replacement must equal.
   *  @default unknown */
  further?: ReadonlyMap<string, EpisodeDigest>
  /** Jobs whose batch contains replacements, trained again from their recorded batch. @default none */
  retrained?: ReadonlyMap<string, Pick<JobDigest, 'steps' | 'weights'>>
}

/** Forbidden changes by the faults, one line each. */
export function compareRuns(input: CompareInput): string[] {
  const { quiet, hurt, expects } = input
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
  for (const is of now.values()) {
    if (!before.has(is.id)) faults.push(...replacementFaults(is, input))
  }
  if (isWhole(input)) faults.push(...ledgerFaults(quiet, hurt), ...evaluationFaults(quiet, hurt))
  if (expects === 'restarted') faults.push(...groupFaults(quiet, hurt), ...fateFaults(hurt))
  faults.push(...jobFaults(input))
  return faults
}

/** Whether the whole run must equal the undisturbed one, and not only each of its episodes. */
export function isWhole({ hurt, expects }: Pick<CompareInput, 'hurt' | 'expects'>): boolean {
  return expects === 'identical' || (expects === 'restarted' && !hurt.episodes.some(isLost))
}

function mayDiffer(episode: EpisodeDigest, expects: Expectation): boolean {
  if (expects === 'cancelled') return episode.disposition === 'cancelled'
  return (expects === 'replaced' || expects === 'restarted') && isLost(episode)
}

/** Without a verdict, or with one that does not count. */
export function isLost({ result }: EpisodeDigest): boolean {
  return /"verdict":(null|"could-not-grade")/.test(result)
}

/** An episode that infrastructure ended must have no verdict that could be rewarded. */
function rewardFaults({ id, disposition, result }: EpisodeDigest): string[] {
  const isOurs = disposition === 'infra' || disposition === 'cancelled' || disposition === 'stale'
  return isOurs && !result.includes('"verdict":null') ? [`${id} ended as ${disposition} and has a verdict`] : []
}

/** Faults of an episode that the undisturbed run lacks: it must replace a lost sibling and equal the undisturbed episode of its
 *  index. */
function replacementFaults(is: EpisodeDigest, { hurt, expects, further }: CompareInput): string[] {
  const siblings = hurt.episodes.filter((other) => other !== is && groupOf(other) === groupOf(is))
  const mayReplace = expects === 'replaced' || expects === 'restarted'
  if (!mayReplace || !siblings.some(isLost)) return [`${is.id} is not in the run without faults`]
  const was = further?.get(is.id)
  if (was === undefined) return further === undefined ? [] : [`${is.id} has an index that no replacement should need`]
  return isLost(is) ? prefixFaults(was, is) : episodeFaults(was, is)
}

/** Turns that were committed before the end must be the undisturbed ones. */
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

/**
 * A group must have as many valid episodes as without faults, with consecutive indexes: a lost episode costs an index, but no place.
 */
function groupFaults(quiet: RunDigest, hurt: RunDigest): string[] {
  const now = Map.groupBy(hurt.episodes, groupOf)
  return [...Map.groupBy(quiet.episodes, groupOf)].flatMap(([group, was]) => {
    const is = now.get(group) ?? []
    const [wanted, valid] = [was, is].map((all) => all.filter((one) => !isLost(one)).length)
    const indexes = is.map(({ id }) => Number(id.split('/').at(-1))).sort((a, b) => a - b)
    return [
      ...(wanted === valid ? [] : [`${group} has ${valid} valid episodes instead of ${wanted}`]),
      ...(indexes.every((index, place) => index === place) ? [] : [`${group} has the indexes ${indexes.join(', ')}`]),
    ]
  })
}

function groupOf({ id }: EpisodeDigest): string {
  return id.slice(0, id.lastIndexOf('/'))
}

/** The ledger must name the lost episode and its replacement. */
function fateFaults({ episodes, fates }: RunDigest): string[] {
  return episodes.flatMap((episode) => {
    const fate = fates.get(episode.id)
    if (fate === undefined) return [`the ledger does not name ${episode.id}`]
    return (fate === 'excluded') === isLost(episode)
      ? []
      : [`${episode.id} (${episode.disposition}) is ${fate} in the ledger`]
  })
}

function ledgerFaults(quiet: RunDigest, hurt: RunDigest): string[] {
  const [was, is] = [quiet.ledgers.join('\n'), hurt.ledgers.join('\n')]
  return was === is ? [] : [`the ledger differs: ${firstDifference(was, is)}`]
}

function evaluationFaults(quiet: RunDigest, hurt: RunDigest): string[] {
  const [was, is] = [quiet.evaluations.join('\n'), hurt.evaluations.join('\n')]
  return was === is ? [] : [`an evaluation differs: ${firstDifference(was, is)}`]
}

/** The batches must be the same, with every optimizer step once and the same weights. */
function jobFaults(input: CompareInput): string[] {
  const { quiet, hurt, expects, retrained } = input
  const now = new Map(hurt.jobs.map((job) => [job.id, job]))
  const faults = hurt.jobs.flatMap(({ id }) =>
    quiet.jobs.some((job) => job.id === id) ? [] : [`${id} is not in the run without faults`],
  )
  for (const was of quiet.jobs) {
    const is = now.get(was.id)
    if (is === undefined) {
      // Replacements may leave an iteration without a group that has a spread.
      if (isWhole(input)) faults.push(`${was.id} is missing`)
      continue
    }
    if (isWhole(input) || expects === 'cancelled') {
      if (was.batch !== is.batch) faults.push(`${is.id}: the batch differs: ${firstDifference(was.batch, is.batch)}`)
      // A cancelled run may end before its job does.
      if (expects !== 'cancelled' || is.weights !== null) faults.push(...trainingFaults(was, is))
      continue
    }
    const again = retrained?.get(is.id)
    if (again !== undefined) faults.push(...trainingFaults(again, is))
    if (is.steps === null) faults.push(`${is.id} was never trained on`)
  }
  return faults
}

function trainingFaults(was: Pick<JobDigest, 'steps' | 'weights'>, is: JobDigest): string[] {
  const faults: string[] = []
  if (was.steps?.length !== is.steps?.length) {
    faults.push(`${is.id} has ${is.steps?.length ?? 'no'} optimizer steps instead of ${was.steps?.length ?? 'none'}`)
  } else {
    was.steps?.forEach((step, index) => {
      const other = is.steps?.[index] ?? null
      if (step !== other) faults.push(`${is.id} step ${index + 1} differs: ${firstDifference(step, other)}`)
    })
  }
  if (was.weights !== is.weights)
    faults.push(`${is.id}: the weights differ: ${firstDifference(was.weights, is.weights)}`)
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
