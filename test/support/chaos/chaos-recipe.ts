/** The small runs of chaos tests, as overrides of shipped recipes. */

const TASKS = 2
/** Makes three parts of a rollout. */
const TASKS_OF_PARTS = 4
/** Episodes of a group. A smaller group could not lose only a part of its episodes. */
const GROUP_SIZE = 2
/** Replacements may need this many groups' indexes: a group loses all its episodes at most this often. */
const FURTHER_GROUPS = 3

/** One step of the batch writer and one of the trainer per iteration suffice for a kill. */
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
  /** At least one; all serve the same policies. */
  policyUrls: readonly string[]
  /** The stage of the overridden recipe, because lists are replaced as a whole. */
  stage: object | undefined
  /** Larger groups, only to find out how episodes with higher indexes end. @default false */
  further?: boolean
  /** A rollout has more groups than fit one history. @default false */
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
    // The scripted policy's log-probabilities belong to no model.
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
