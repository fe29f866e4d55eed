/** Which shape the record of each key has: the one table that readers of every kind of record go through. */
import {
  alarmKeys,
  episodeId,
  episodeKeys,
  gateKeys,
  gradingKeys,
  nightKeys,
  policyKeys,
  predictionKeys,
  recipeKeys,
  removalKeys,
  runKeys,
  suiteKeys,
} from '../../../contracts/keys.ts'
import * as episodes from './episode-shapes.ts'
import * as runs from './run-shapes.ts'
import * as suites from './suite-shapes.ts'
import { storedRecipe } from './recipe-shape.ts'
import { fieldOf, type Shape } from './shape.ts'

export interface RecordKind {
  /** For messages. */
  name: string
  /** With `*` for names and a number of zeros and `NaN` for numbers. */
  example: string
  keys: RegExp
  shape: Pick<Shape<never>, 'misfit'>
  /** Shapes of earlier versions of its schema that readers still know, by schema. */
  earlier?: Readonly<Record<string, Pick<Shape<never>, 'misfit'>>>
}

/** Stand for a part of a key: any name, any number. */
const NAME = '*'
const NUMBER = Number.NaN

const EPISODE = episodeId({ run: NAME, stage: NAME, iteration: NUMBER, taskId: NAME, index: NUMBER })
const GRADING = { run: NAME, taskId: NAME, profile: NAME, patchSha256: NAME }
const OWN_GRADING = { ...GRADING, episode: null }
const AGAIN = { ...GRADING, episode: EPISODE }

/** Makes the pattern of a key from the function that spells it. */
function keysLike(key: string): RegExp {
  const escaped = key.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`)
  return new RegExp(`^${escaped.replaceAll(/0*NaN/g, String.raw`\d+`).replaceAll('*', '[^/]+')}$`)
}

const kind = (name: string, key: string, shape: RecordKind['shape'], more: Partial<RecordKind> = {}): RecordKind => ({
  name,
  example: key,
  keys: keysLike(key),
  shape,
  ...more,
})

export const RECORD_KINDS: readonly RecordKind[] = [
  kind('action', episodeKeys.action(EPISODE, NUMBER), episodes.action),
  kind('observation', episodeKeys.observation(EPISODE, NUMBER), episodes.observation),
  kind('tree', episodeKeys.tree(EPISODE, NUMBER), episodes.tree),
  kind('episode’s start', episodeKeys.start(EPISODE), episodes.episodeStart),
  kind('episode', episodeKeys.spec(EPISODE), episodes.episodeSpec),
  kind('placement', episodeKeys.placement(EPISODE, NUMBER), episodes.placement),
  kind('disposition', episodeKeys.disposition(EPISODE), episodes.dispositionRecord),
  kind('capture', episodeKeys.capture(EPISODE), episodes.capture),
  kind('verdict', episodeKeys.verdict(EPISODE), episodes.verdict),
  kind('grading attempt', episodeKeys.gradingAttempt(EPISODE, NUMBER), episodes.gradingAttempt),
  kind('grading time-out', episodeKeys.grading(EPISODE, NAME, 'timed-out.json'), episodes.gradingTimeOut),
  kind('grading time-out', gradingKeys.file(AGAIN, 'timed-out.json'), episodes.gradingTimeOut),
  kind('grading time-out', gradingKeys.file(OWN_GRADING, 'timed-out.json'), episodes.gradingTimeOut),
  kind('episode’s result', episodeKeys.result(EPISODE), episodes.episodeResult),
  kind('verdict', gradingKeys.file(AGAIN, 'verdict.json'), episodes.verdict),
  kind('ungraded patch', gradingKeys.file(AGAIN, 'ungraded.json'), suites.ungraded),
  kind('verdict', gradingKeys.file(OWN_GRADING, 'verdict.json'), episodes.verdict),
  kind('ungraded patch', gradingKeys.file(OWN_GRADING, 'ungraded.json'), suites.ungraded),
  kind('grading plan', gradingKeys.plan(NAME), suites.gradingPlan),
  kind('grading', gradingKeys.result(NAME), suites.grading),
  kind('predictions', predictionKeys.set(NAME), suites.predictions),
  kind('claim of a run', runKeys.claim(NAME), runs.runClaim),
  kind('recipe', runKeys.recipe(NAME), storedRecipe),
  kind('policy', runKeys.policy(NAME, NAME), runs.policyRef),
  kind('pinned split', runKeys.pinnedSplit(NAME, NAME), suites.pinnedSplit),
  kind('plan', runKeys.plan(NAME, NAME, NUMBER), runs.iterationPlan),
  kind('refill', runKeys.refill(NAME, NAME, NUMBER, NUMBER), runs.refillPlan),
  kind('overlap', runKeys.overlap(NAME), suites.overlap),
  kind('pool', runKeys.pool(NAME, NAME), runs.pool),
  kind('plateau', runKeys.plateau(NAME, NAME, NUMBER), runs.plateau),
  kind('job plan', `${runKeys.batch(NAME, NAME, NUMBER, NUMBER)}/plan.json`, runs.jobPlan),
  kind('ledger', runKeys.ledger(NAME, NAME, NUMBER), runs.ledger),
  kind('training', runKeys.training(NAME, NAME, NUMBER, NUMBER), runs.training),
  kind('engines', runKeys.engines(NAME), runs.engines),
  kind('job time', runKeys.jobTime(NAME, NAME, NUMBER, NUMBER), runs.jobTime),
  kind('code', runKeys.code(NAME, NUMBER), runs.code),
  kind('player', runKeys.player(NAME, NUMBER), runs.player),
  kind('night', runKeys.night(NAME, NAME), runs.night),
  kind('night', nightKeys.night({ series: NAME, at: NAME, run: NAME, name: NAME }), runs.night),
  kind('kept policies', runKeys.keptPolicies(NAME), runs.keptPolicies),
  kind('promotion decision', runKeys.promotion(NAME), runs.promotionDecision),
  kind('evaluation', runKeys.evaluation(NAME, NAME), runs.evaluation, {
    earlier: { 'longhaul.evaluation/1': runs.evaluation1 },
  }),
  kind('durations', runKeys.durations(NAME, NUMBER), runs.durations),
  kind('measurement', runKeys.measured(NAME, NUMBER), runs.measured),
  kind('tracked run', runKeys.tracked(NAME, NAME), runs.tracked),
  kind('gate', gateKeys.grading(NAME, NAME, NAME, NUMBER), suites.gate),
  kind('image check', gateKeys.image(NAME), suites.imageCheck),
  kind('task’s gate', gateKeys.task(NAME, NAME, NAME), suites.taskGate),
  kind('gated suite', gateKeys.gated(NAME, NAME), suites.gatedSuite),
  kind('gate report', gateKeys.report(NAME, NAME, 'report.json'), suites.gateReport),
  kind('suite', suiteKeys.manifest(NAME), suites.suiteManifest),
  kind('suite’s origin', suiteKeys.origin(NAME), suites.suiteOrigin),
  kind('imported suite', suiteKeys.imported(NAME), suites.importedSuite),
  kind('row', suiteKeys.row(NAME, NAME), suites.row),
  kind('made suite', suiteKeys.madeBy(NAME), suites.madeSuite),
  kind('pinned files', suiteKeys.pinnedFiles(NAME, NAME), suites.pinnedFiles),
  kind('task', suiteKeys.task(NAME, NAME), suites.task),
  kind('policy', policyKeys.ref(NAME), runs.policyRef),
  kind('weights', policyKeys.weights(NAME), runs.weights),
  kind('lineage', policyKeys.lineage(NAME), runs.lineage),
  kind('promotion', policyKeys.promotion(NUMBER), runs.promotion),
  kind('removal', removalKeys.begun(NAME), runs.removalBegun),
  kind('removal', removalKeys.takenUp(NAME, NUMBER), runs.removalTakenUp),
  kind('removal', removalKeys.sign(NAME, NUMBER, NUMBER), runs.removalSign),
  kind('removal', removalKeys.givenUp(NAME, NUMBER), runs.removalSign),
  kind('removal', removalKeys.removed(NAME, NUMBER), runs.removalSign),
  kind('alarm', alarmKeys.alarm(NAME), runs.alarm),
  kind('sent alarm', alarmKeys.sent(NAME), runs.alarmSent),
  kind('counts of a schedule', alarmKeys.firstCounts(NAME), runs.alarmCounts),
  kind('beginning of the watch', alarmKeys.since, runs.alarmsSince),
  kind('pushed recipe', recipeKeys.pushed(NAME), runs.pushedRecipe),
]

/** By the first segment of the key and the number of segments: a run reads thousands of records. */
const KINDS = Map.groupBy(RECORD_KINDS, ({ example }) => placeOf(example))

function placeOf(key: string): string {
  const segments = key.split('/')
  return `${segments[0]} ${segments.length}`
}

/** Null for a key under which no kind of record is stored. */
export function kindOf(key: string): RecordKind | null {
  return KINDS.get(placeOf(key))?.find(({ keys }) => keys.test(key)) ?? null
}

/**
 * Returns which field of the record has not the type that its kind of record gives it; null for a record of its kind, and for a key
 * of none.
 */
export function findMisfit(key: string, record: unknown): string | null {
  const found = kindOf(key)
  return found === null ? null : misfitOf(found, record)
}

export function misfitOf({ name, shape, earlier }: RecordKind, record: unknown): string | null {
  const schema = (record as { schema?: unknown } | null)?.schema
  const known = typeof schema === 'string' && earlier !== undefined && Object.hasOwn(earlier, schema)
  const misfit = ((known ? earlier[schema] : undefined) ?? shape).misfit(record)
  if (misfit === null) return null
  const { expected, got } = misfit
  const field = fieldOf(misfit)
  const place = field === '' ? 'the record' : `its field ${field}`
  return `${place} is ${got}, but in a record of this kind (${name}) it is ${expected}`
}
