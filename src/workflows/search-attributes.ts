import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common'
import { purposeOf } from '../contracts/episode-purpose.ts'
import type { EpisodeInput, EpisodeResult } from '../contracts/workflows.types.ts'

/** Registered with the server by `infra/temporal`; two runs are found by one filter. */
export const attributes = {
  run: defineSearchAttributeKey('TrainRun', 'KEYWORD'),
  stage: defineSearchAttributeKey('Stage', 'KEYWORD'),
  task: defineSearchAttributeKey('TaskId', 'KEYWORD'),
  outcome: defineSearchAttributeKey('Outcome', 'KEYWORD'),
  policy: defineSearchAttributeKey('PolicyVersion', 'KEYWORD'),
  iteration: defineSearchAttributeKey('Iteration', 'INT'),
  turns: defineSearchAttributeKey('Turns', 'INT'),
  resolvedRate: defineSearchAttributeKey('ResolvedRate', 'DOUBLE'),
  evaluation: defineSearchAttributeKey('Evaluation', 'BOOL'),
} as const

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

/** The disposition, then the verdict: `submitted`, or `submitted/resolved` once graded. */
export function outcomeAttributes(result: EpisodeResult): SearchAttributePair[] {
  const outcome = result.verdict === null ? result.disposition : `${result.disposition}/${result.verdict}`
  return [
    { key: attributes.outcome, value: outcome },
    { key: attributes.turns, value: result.turns },
  ]
}
