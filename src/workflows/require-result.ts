import {
  type Check,
  isCount,
  isFlag,
  isId,
  isNumber,
  isObject,
  isText,
  listOf,
  oneOf,
  optional,
  recordOf,
  shape,
} from '../domain/shapes.ts'
import { failRun } from './failures.ts'
import type {
  ArtifactActivities,
  ControlActivities,
  HostActivities,
  SandboxActivities,
  TrainerActivities,
} from '../contracts/activities.types.ts'

const isArtifact = shape({ key: isText, sha256: isText, bytes: isCount })
export const isPolicy = shape({ version: isId, uri: isText, globalStep: isCount })
export const isPreparedSuite = shape({ suite: isId, name: isId, tasks: isCount })
const isShortVerdict = shape({ kind: oneOf('resolved', 'unresolved', 'could-not-grade') })
const isScore = shape({
  mean: isNumber,
  sem: isNumber,
  interval: optional(shape({ low: isNumber, high: isNumber })),
  tasks: isCount,
  attempts: isCount,
})
const isPlan = shape({
  plan: shape({ key: isText }),
  tasks: isCount,
  groupSize: isCount,
  maxReplacements: isCount,
  maxOpenGroups: isNumber,
})
const isEpisode = shape({ episode: isText, disposition: isText, verdict: optional(isText), turns: isCount })
const isSandbox = shape({ name: isId, hostQueue: isId })
const isEnded = shape({ kind: oneOf('ended'), disposition: isText, patch: optional(isArtifact) })
const isKnown = shape({ kind: oneOf('result'), result: isEpisode })

/** Steps of an episode: a made-up result costs a placement or a grading, and the records tell where the episode continues. */
const OF_EPISODES = {
  openSandbox: (value) => isSandbox(value) || isEnded(value) || isKnown(value),
  advanceEpisode: shape({
    turns: isCount,
    disposition: (value) => value === null || isText(value),
    moving: optional(isFlag),
  }),
  captureSubmission: isArtifact,
  gradeSubmission: isEpisode,
} satisfies Record<string, Check>

type AllActivities = ControlActivities & SandboxActivities & HostActivities & TrainerActivities & ArtifactActivities

/** Every other activity: nothing reads the result of the check for images, and the others have none. */
type WithResult = Exclude<
  keyof AllActivities,
  | keyof typeof OF_EPISODES
  | 'checkImages'
  | 'publishPolicy'
  | 'releasePolicies'
  | 'closeSandbox'
  | 'attendHost'
  | 'cancelLeft'
>

/** What decides how a run goes on. A made-up result ends it. */
const OF_RUNS = {
  resolveRecipe: shape({ run: isId, recipe: isObject, stages: listOf(isObject) }),
  prepareSuite: isPreparedSuite,
  planIteration: isPlan,
  planRefill: isPlan,
  readPlanPage: listOf(isText),
  recordUngraded: isEpisode,
  resolvePolicy: isPolicy,
  buildBatch: shape({ batches: listOf(isArtifact), meanReward: isNumber, resolvedRate: isNumber, meanTurns: isNumber }),
  runTrainingJob: shape({ policy: isPolicy, hold: optional(isText) }),
  gateTask: shape({ done: isFlag, ok: isFlag }),
  closeGate: shape({ admitted: isCount, refused: isCount }),
  summarizeEvaluation: shape({
    score: shape({ name: isText, policy: isText, passAt1: isNumber, sem: isNumber }),
    evaluation: isArtifact,
  }),
  openGrading: shape({ run: isId, name: isText, patches: isCount }),
  gradePatch: isShortVerdict,
  recordUngradedPatch: isShortVerdict,
  requireDisjoint: shape({ overlapping: isCount }),
  gateWidth: shape({ width: isWidth }),
  judgePlateau: shape({ plateau: isFlag }),
  keptPolicies: shape({ policies: listOf(isPolicy) }),
  promote: shape({ number: (value) => value === null || isCount(value), why: optional(isText) }),
  recordNight: shape({
    verdicts: listOf(shape({ against: oneOf('last', 'baseline'), outcome: isText, statement: isText })),
  }),
  writeReport: shape({ html: isArtifact, json: isArtifact }),
  writeGateReport: shape({ counts: recordOf(isCount), report: isArtifact, evidence: isArtifact }),
  closeGrading: shape({
    result: isArtifact,
    counts: recordOf(isCount),
    graded: optional(isScore),
    official: optional(isScore),
    changed: isCount,
  }),
  readEvaluation: shape({ sha256: isText, bytes: isCount, data: isText, next: optional(isCount) }),
  findAlarms: shape({ alarms: listOf(isId) }),
  sendAlarm: shape({ sent: isFlag }),
} satisfies Record<WithResult, Check>

type Checked = keyof typeof OF_EPISODES | keyof typeof OF_RUNS

/**
 * Returns the result of an activity. Its type proves nothing, because a person can complete an activity by hand with any result: `null`
 * for a captured patch would be graded like none, and a plan without numbers would be continued as new without end.
 */
export function requireResult<Result>(activity: Checked, result: Result): Result {
  const isOfEpisode = isStep(activity)
  if ((isOfEpisode ? OF_EPISODES[activity] : OF_RUNS[activity])(result)) return result
  throw failRun(
    isOfEpisode ? 'Sandbox.Lost' : 'Run.EndedByHand',
    `The activity ${activity} was completed by hand with a result that it never gives; start the run again under its name, and it continues from its records`,
  )
}

function isWidth(value: unknown): boolean {
  return isCount(value) && value > 0
}

function isStep(activity: Checked): activity is keyof typeof OF_EPISODES {
  return Object.hasOwn(OF_EPISODES, activity)
}
