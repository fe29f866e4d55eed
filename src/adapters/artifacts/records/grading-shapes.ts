import type { ArtifactRef } from '../../../contracts/artifacts.types.ts'
import type {
  GradedInstance,
  GradingCounts,
  GradingInstance,
  GradingPlan,
  GradingRecord,
  GradingScore,
  PredictionSet,
  ShortVerdict,
  StoredPrediction,
  UngradedRecord,
} from '../../../contracts/grading.types.ts'
import { verdictKind } from './episode-shapes.ts'
import { amount, count, listOf, nullable, number, object, oneOf, share, text, variants } from './shape.ts'
import { gradingProfile } from './suite-shapes.ts'

export const artifactRef = object<ArtifactRef>({ key: text, sha256: text, bytes: count })

const shortVerdict = object<ShortVerdict>({ kind: verdictKind, reason: nullable(text) })
const patch = nullable(artifactRef)
const fault = nullable(oneOf('not-unicode', 'too-large'))
const format = oneOf('swebench', 'rebench-v2', 'gold')

const source = variants<GradingPlan['source'], 'kind'>('kind', {
  predictions: object<Extract<GradingPlan['source'], { kind: 'predictions' }>>({
    kind: oneOf('predictions'),
    hash: text,
    format,
    duplicates: listOf(text),
  }),
  run: object<Extract<GradingPlan['source'], { kind: 'run' }>>({
    kind: oneOf('run'),
    run: text,
    stages: listOf(text),
  }),
})

const suite = nullable(object<NonNullable<GradingPlan['suite']>>({ hash: text, name: text }))

export const gradingPlan = object<GradingPlan>({
  schema: oneOf('longhaul.grading-plan/1'),
  run: text,
  source,
  profile: nullable(gradingProfile),
  suite,
  instances: listOf(
    object<GradingInstance>({
      suite: text,
      taskId: text,
      profile: gradingProfile,
      model: text,
      patch,
      fault,
      episode: nullable(text),
      before: nullable(shortVerdict),
    }),
  ),
  runnable: count,
})

export const ungraded = object<UngradedRecord>({
  schema: oneOf('longhaul.ungraded/1'),
  run: text,
  taskId: text,
  reason: text,
})

const score = nullable(
  object<GradingScore>({
    mean: share,
    sem: amount,
    interval: nullable(object<{ low: number; high: number }>({ low: number, high: number })),
    tasks: count,
    attempts: count,
  }),
)

export const grading = object<GradingRecord>({
  schema: oneOf('longhaul.grading/1'),
  run: text,
  source,
  profile: nullable(gradingProfile),
  suite,
  counts: object<GradingCounts>({
    resolved: count,
    unresolved: count,
    couldNotGrade: count,
    empty: count,
    incomplete: count,
  }),
  graded: score,
  official: score,
  instances: listOf(
    object<GradedInstance>({
      kind: verdictKind,
      reason: nullable(text),
      taskId: text,
      model: text,
      profile: gradingProfile,
      episode: nullable(text),
      before: nullable(shortVerdict),
    }),
  ),
})

export const predictions = object<PredictionSet>({
  schema: oneOf('longhaul.predictions/1'),
  hash: text,
  format,
  predictions: listOf(object<StoredPrediction>({ taskId: text, model: text, patch, fault })),
  duplicates: listOf(text),
})
