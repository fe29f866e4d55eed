import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common'
import { purposeOf } from '../contracts/episode-purpose.ts'
import type { EpisodeInput, EpisodeResult, ResolvedRun } from '../contracts/workflows.types.ts'

/** `infra/temporal` registers them with the server. */
export const attributes = {
  run: defineSearchAttributeKey('TrainRun', 'KEYWORD'),
  stage: defineSearchAttributeKey('Stage', 'KEYWORD'),
  task: defineSearchAttributeKey('TaskId', 'KEYWORD'),
  outcome: defineSearchAttributeKey('Outcome', 'KEYWORD'),
  policy: defineSearchAttributeKey('PolicyVersion', 'KEYWORD'),
  model: defineSearchAttributeKey('Model', 'KEYWORD'),
  split: defineSearchAttributeKey('Split', 'KEYWORD'),
  gitSha: defineSearchAttributeKey('GitSha', 'KEYWORD'),
  /** Mean reward of the last iteration of a reinforcement stage. */
  reward: defineSearchAttributeKey('Reward', 'DOUBLE'),
  iteration: defineSearchAttributeKey('Iteration', 'INT'),
  turns: defineSearchAttributeKey('Turns', 'INT'),
  resolvedRate: defineSearchAttributeKey('ResolvedRate', 'DOUBLE'),
  evaluation: defineSearchAttributeKey('Evaluation', 'BOOL'),
} as const

/** The attributes by which a root can be found. */
export function rootAttributes({ run, labels }: ResolvedRun, gitSha: string | undefined): SearchAttributePair[] {
  return [
    { key: attributes.run, value: run },
    ...(labels === undefined ? [] : [{ key: attributes.model, value: labels.model }]),
    ...(labels === undefined ? [] : [{ key: attributes.split, value: labels.split }]),
    ...(gitSha === undefined ? [] : [{ key: attributes.gitSha, value: gitSha }]),
  ]
}

export function stageAttributes(input: {
  run: string
  stage: string
  iteration: number
  policy: string
}): SearchAttributePair[] {
  return [
    { key: attributes.run, value: input.run },
    { key: attributes.stage, value: input.stage },
    { key: attributes.iteration, value: input.iteration },
    { key: attributes.policy, value: input.policy },
    { key: attributes.evaluation, value: purposeOf(input.stage).kind === 'evaluation' },
  ]
}

export function episodeAttributes(input: EpisodeInput): SearchAttributePair[] {
  return [...stageAttributes(input), { key: attributes.task, value: input.taskId }]
}

/** The disposition, followed by the verdict once there is one: `submitted` or `submitted/resolved`. */
export function outcomeAttributes(result: EpisodeResult): SearchAttributePair[] {
  const outcome = result.verdict === null ? result.disposition : `${result.disposition}/${result.verdict}`
  return [
    { key: attributes.outcome, value: outcome },
    { key: attributes.turns, value: result.turns },
  ]
}
