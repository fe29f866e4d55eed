import type { EpisodeRecord, VerdictRecord } from '../../src/contracts/episodes.types.ts'
import type { EvaluationConditions, EvaluationRecord } from '../../src/contracts/evaluations.types.ts'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import type { PriceRecipe, UnauditedRewards } from '../../src/contracts/recipe.types.ts'
import { type AttemptFacts, summarizeAttempts } from '../../src/domain/statistics/evaluation-summary.ts'
import { makeRecord } from './episode-records.ts'

/** 1 = resolved, 0 = unresolved; `infra` and `ungraded` have no outcome. */
export type Attempt = 0 | 1 | 'infra' | 'ungraded'

export interface MakeEvaluationInput {
  name?: string
  run?: string
  policy?: string
  /** k, the requested attempts. @default the first task's number of attempts */
  attempts?: number
  prices?: PriceRecipe
  unaudited?: UnauditedRewards | null
  tasks: { taskId: string; repo?: string; rowHash?: string; createdAt?: string; attempts: Attempt[]; turns?: number }[]
}

export const CONDITIONS: EvaluationConditions = {
  scaffold: 'paper',
  demonstration: false,
  sampling: NEUTRAL_SAMPLING,
  limits: {
    maxTurns: 40,
    contextTokens: 65_536,
    maxTokensPerTurn: 4096,
    commandTimeoutMs: 120_000,
    episodeTimeoutMs: 3_600_000,
    turnsPerStep: 8,
  },
  gradingProfiles: ['swebench-4.1'],
}

/** The evaluation record that the episodes of these attempts produce. */
export function makeEvaluation(input: MakeEvaluationInput): EvaluationRecord {
  const { name = 'nightly', run = 'r', policy = 'v000000-aaaaaaaa', tasks } = input
  const facts = tasks.flatMap(({ taskId, attempts, turns = 6 }) =>
    attempts.map((attempt, index) => makeFacts(attempt, { run, policy, taskId, index, turns })),
  )
  const planned = tasks.map(({ taskId, repo = 'repo', rowHash = `row of ${taskId}`, createdAt = null }) => {
    return { taskId, repo, rowHash, createdAt }
  })
  const summary = summarizeAttempts({
    planned,
    attempts: input.attempts ?? tasks[0]?.attempts.length ?? 1,
    facts,
    prices: input.prices ?? null,
    unaudited: input.unaudited ?? null,
  })
  return {
    schema: 'longhaul.evaluation/2',
    run,
    name,
    stage: `eval-${name}`,
    suite: 'suite',
    ...summary,
    score: { name, policy, ...summary.score },
    conditions: null,
  }
}

export function makeFacts(attempt: Attempt, fields: Partial<EpisodeRecord>): AttemptFacts {
  const kind = attempt === 1 ? 'resolved' : attempt === 0 ? 'unresolved' : 'could-not-grade'
  const record = makeRecord({
    ...fields,
    ...(attempt === 'infra' ? { disposition: 'infra', verdict: null, failure: 'Sandbox.Lost' } : { verdict: kind }),
  })
  return {
    record,
    verdict: attempt === 'infra' ? null : makeVerdict(record, kind),
    wallMs: attempt === 'infra' ? null : 1000 * record.turns,
    startedMs: attempt === 'infra' ? null : 0,
  }
}

export function makeVerdict(
  { episode, taskId, verdictReason }: EpisodeRecord,
  kind: VerdictRecord['kind'],
): VerdictRecord {
  return {
    schema: 'longhaul.verdict/1',
    episode,
    taskId,
    kind,
    reason: verdictReason,
    profile: 'fork-4.0.3',
    from: 'container',
    patchSha256: '',
    failToPass: { passed: 0, total: 1 },
    passToPass: { passed: 0, total: 0 },
    gradeMs: 500,
    image: 'image',
    signs: [],
  }
}
