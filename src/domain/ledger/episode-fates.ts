import type { Disposition, EpisodeRecord, PolicyDisposition, VerdictKind } from '../../contracts/episodes.types.ts'
import type { UnauditedRewards } from '../../contracts/recipe.types.ts'
import {
  type GroupDropReason,
  type GroupMember,
  type GroupRule,
  type RftDropReason,
  pairMembers,
  selectForRft,
  selectGroup,
} from '../rewards/group-selection.ts'
import { compareText } from '../hash-order.ts'
import { type RewardRule, rewardOf } from '../rewards/rewards.ts'
import { assertNever } from '../../contracts/errors.ts'

export type DropReason =
  | GroupDropReason
  | RftDropReason
  | 'zero-advantage'
  /** No sibling with the other outcome was left to pair it with. */
  | 'unpaired'
  /** A limit ended it, and the recipe filters such episodes. */
  | 'overlong'
  /** The rules kept it, but the recipe's step limit left it out. */
  | 'over-step-limit'
  /** Every token it could have trained on was masked. */
  | 'no-loss-token'

/** The fate of one episode of a training iteration: exactly one of these, decided from records alone. */
export type EpisodeFate =
  /** `pair`: the chosen episode of its pair, whose advantage is 1; that of the rejected one is −1. */
  | { kind: 'train'; episode: string; advantage: number | null; pair?: string }
  | { kind: 'dropped'; episode: string; reason: DropReason }
  | { kind: 'excluded'; episode: string; reason: ExclusionReason }

/** The episodes of one task, as the batch manifest and the groups file describe them. */
export interface ScoredGroup {
  taskId: string
  /** Valid siblings in index order. */
  members: GroupMember[]
  /** Siblings without a reward. */
  infra: number
  dropped: GroupDropReason | null
  std: number
}

export interface ReinforceSelection {
  groups: ScoredGroup[]
  fates: EpisodeFate[]
}

export interface SelectForReinforceInput {
  /** Every episode of the iteration, in any order. */
  records: readonly EpisodeRecord[]
  reward: RewardRule
  group: GroupRule
}

/** Scores the groups of an iteration and decides every episode. Groups are ordered by task id and episodes by index, so the input
 *  order does not matter. */
export function selectForReinforce({ records, reward, group }: SelectForReinforceInput): ReinforceSelection {
  const groups: ScoredGroup[] = []
  const fates: EpisodeFate[] = []
  for (const siblings of groupByTask(records)) {
    const valid = siblings.filter(isValidEpisode)
    const members = valid.map((record) => memberOf(record, reward))
    const selection = selectGroup({ members, rule: group })
    groups.push({
      taskId: siblings[0]?.taskId ?? '',
      members,
      infra: siblings.length - valid.length,
      dropped: selection.kind === 'dropped' ? selection.reason : null,
      std: selection.std,
    })
    fates.push(...excluded(siblings))
    if (selection.kind === 'dropped') {
      const { reason } = selection
      fates.push(...members.map(({ episode }): EpisodeFate => ({ kind: 'dropped', episode, reason })))
      continue
    }
    if (group.pairs === true) {
      fates.push(...pairedFates({ valid, members, group }))
      continue
    }
    for (const [index, member] of selection.members.entries()) {
      const { episode } = member
      if (member.kind === 'dropped') fates.push(member)
      else if (group.overlong === 'filter' && isOverlong(valid[index])) {
        fates.push({ kind: 'dropped', episode, reason: 'overlong' })
      } else fates.push({ ...member, kind: 'train' })
    }
  }
  return { groups, fates }
}

function pairedFates({
  valid,
  members,
  group,
}: {
  valid: readonly ValidEpisode[]
  members: readonly GroupMember[]
  group: GroupRule
}): EpisodeFate[] {
  const isFiltered = (index: number): boolean => group.overlong === 'filter' && isOverlong(valid[index])
  const pairs = pairMembers(members.filter((_, index) => !isFiltered(index)))
  const pairOf = new Map(pairs.flatMap((pair) => [[pair.chosen, pair] as const, [pair.rejected, pair] as const]))
  return members.map(({ episode }, index): EpisodeFate => {
    const pair = pairOf.get(episode)
    if (pair !== undefined) {
      return { kind: 'train', episode, advantage: pair.chosen === episode ? 1 : -1, pair: pair.chosen }
    }
    return { kind: 'dropped', episode, reason: isFiltered(index) ? 'overlong' : 'unpaired' }
  })
}

/** Fates of a rejection fine-tuning iteration. */
export function selectFatesForRft({
  records,
  maxPerTask,
  unaudited,
}: {
  records: readonly EpisodeRecord[]
  maxPerTask: number | null
  unaudited: UnauditedRewards
}): EpisodeFate[] {
  const kept = selectForRft({ episodes: records.filter(isValidEpisode), maxPerTask, unaudited })
  return [
    ...excluded(records),
    ...kept.map((one): EpisodeFate => (one.kind === 'kept' ? { ...one, kind: 'train', advantage: null } : one)),
  ]
}

function memberOf({ episode, ...facts }: ValidEpisode, rule: RewardRule): GroupMember {
  const { outcome, reward } = rewardOf({ rule, ...facts })
  return { episode, outcome, reward }
}

/** A limit cut the episode off, so it is unknown whether it would have succeeded. */
function isOverlong(record: ValidEpisode | undefined): boolean {
  switch (record?.disposition) {
    case 'turn-limit':
    case 'context-limit':
    case 'time-limit':
      return true
    default:
      return false
  }
}

function excluded(records: readonly EpisodeRecord[]): EpisodeFate[] {
  return records.flatMap((record) => {
    const reason = exclusionOf(record)
    return reason === null ? [] : [{ kind: 'excluded' as const, episode: record.episode, reason }]
  })
}

function groupByTask(records: readonly EpisodeRecord[]): EpisodeRecord[][] {
  const groups = new Map<string, EpisodeRecord[]>()
  const sorted = [...records].sort((a, b) => compareText(a.taskId, b.taskId) || a.index - b.index)
  for (const record of sorted) groups.set(record.taskId, [...(groups.get(record.taskId) ?? []), record])
  return [...groups.values()]
}

/** Endings caused by the policy itself. They are used for training and count in every mean. */
export function isPolicyDisposition(disposition: Disposition): disposition is PolicyDisposition {
  switch (disposition) {
    case 'submitted':
    case 'turn-limit':
    case 'context-limit':
    case 'time-limit':
    case 'agent-gave-up':
      return true
    case 'infra':
    case 'cancelled':
    case 'stale':
      return false
    default:
      return assertNever(disposition)
  }
}

/** An episode with a reward: the policy ended it and it was graded. */
export type ValidEpisode = EpisodeRecord & {
  disposition: PolicyDisposition
  verdict: Exclude<VerdictKind, 'could-not-grade'>
}

export function isValidEpisode(record: EpisodeRecord): record is ValidEpisode {
  return isPolicyDisposition(record.disposition) && (record.verdict === 'resolved' || record.verdict === 'unresolved')
}

/** Why an episode has no reward. The reasons concern infrastructure and operators, never the policy. */
export type ExclusionReason = 'infra' | 'cancelled' | 'stale' | 'could-not-grade'

/** Null for a valid episode. */
export function exclusionOf(record: EpisodeRecord): ExclusionReason | null {
  if (isValidEpisode(record)) return null
  const { disposition } = record
  if (disposition === 'infra' || disposition === 'cancelled' || disposition === 'stale') return disposition
  return 'could-not-grade'
}

/** The verdict of an episode that reached no grader. A lost episode is not judged; an episode without a submission counts as an
 *  empty patch. */
export function ungradedVerdict(disposition: Disposition): { verdict: VerdictKind | null; reason: string | null } {
  if (!isPolicyDisposition(disposition)) return { verdict: null, reason: null }
  if (disposition === 'submitted') return { verdict: 'could-not-grade', reason: 'not-graded' }
  if (disposition === 'agent-gave-up') return { verdict: 'unresolved', reason: 'sandbox-ended' }
  return { verdict: 'unresolved', reason: 'not-submitted' }
}
