/** The small runs that chaos plays, as overrides of shipped recipes. */

const TASKS = 2
/** Three parts of a rollout. */
const TASKS_OF_PARTS = 4
/** Episodes of a group: less could not be whole or broken. */
const GROUP_SIZE = 2
/** Indexes that replacements may need: a group loses all its episodes at most this often. */
const FURTHER_GROUPS = 3

/** One step of the batch writer and one of the trainer an iteration are enough to be killed in. */
export function overridesOf({
  kind,
  seed,
  policyUrls: [url, ...replicas],
  stage,
  further = false,
  inParts = false,
}: {
  kind: 'evaluation' | 'training'
  seed: number
  /** At least one; all of the same policies. */
  policyUrls: readonly string[]
  /** Of the recipe that is overridden; lists are replaced whole. */
  stage: object | undefined
  /** Only to know what episodes under further indexes are: bigger groups, nothing else. @default false */
  further?: boolean
  /** A rollout has more groups than one history. @default false */
  inParts?: boolean
}): Record<string, unknown> {
  const groupSize = further ? GROUP_SIZE * (1 + FURTHER_GROUPS) : GROUP_SIZE
  const common = {
    seed,
    scaffold: { limits: { commandTimeoutS: 20, maxTokensPerTurn: 300 }, submit: { capture: 'all' } },
    policyServer: { url, replicas },
  }
  const tasks = inParts ? TASKS_OF_PARTS : TASKS
  if (kind === 'evaluation') {
    return {
      ...common,
      data: { heldOut: { count: tasks } },
      rollout: { maxOpenEpisodes: 2, turnsPerStep: 3 },
      evaluate: { attempts: groupSize, tasks, maxTurns: 8, context: 2_048, policy: 'base' },
    }
  }
  return {
    ...common,
    data: { train: { count: tasks }, heldOut: { count: 1 } },
    rollout: { maxOpenEpisodes: 4, turnsPerStep: 4 },
    rft: null,
    // The scripted policy's log-probabilities are those of no model.
    trainer: { alarms: { onAlarm: 'warn', divergedKl: null } },
    reinforce: {
      groupSize,
      stages: [
        {
          ...stage,
          context: 2_048,
          maxTurns: 8,
          penaltyStart: 6,
          problemsPerIteration: tasks,
          batch: tasks * groupSize,
          until: { maxIterations: 2 },
        },
      ],
    },
    evaluate: { attempts: groupSize, tasks: 1, maxTurns: 8, context: 2_048 },
  }
}
