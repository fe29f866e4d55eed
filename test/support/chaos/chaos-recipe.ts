/** The small runs that chaos plays, as overrides of shipped recipes. */

const TASKS = 4

/** One step of the batch writer and one of the trainer are enough to be killed in. */
export function overridesOf({
  kind,
  seed,
  policyUrl,
  stage,
}: {
  kind: 'evaluation' | 'training'
  seed: number
  policyUrl: string
  /** Of the recipe that is overridden; lists are replaced whole. */
  stage: object | undefined
}): Record<string, unknown> {
  const common = {
    seed,
    scaffold: { limits: { commandTimeoutS: 20, maxTokensPerTurn: 300 }, submit: { capture: 'all' } },
    policyServer: { url: policyUrl },
  }
  if (kind === 'evaluation') {
    return {
      ...common,
      data: { heldOut: { count: TASKS } },
      rollout: { maxOpenEpisodes: 2, turnsPerStep: 3 },
      evaluate: { attempts: 1, tasks: TASKS, maxTurns: 8, context: 4_000, policy: 'base' },
    }
  }
  return {
    ...common,
    data: { train: { count: 2 }, heldOut: { count: 1 } },
    rollout: { maxOpenEpisodes: 4, turnsPerStep: 4 },
    rft: null,
    // The scripted policy's log-probabilities are those of no model.
    trainer: { alarms: { onAlarm: 'warn', divergedKl: null } },
    reinforce: {
      groupSize: 2,
      stages: [
        {
          ...stage,
          context: 2_000,
          maxTurns: 8,
          penaltyStart: 6,
          problemsPerIteration: 2,
          batch: 4,
          until: { maxIterations: 1 },
        },
      ],
    },
    evaluate: { tasks: 1, maxTurns: 8, context: 2_000 },
  }
}
