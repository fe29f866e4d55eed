import type { LineageRecord, PolicyHash } from '../../../contracts/costs.types.ts'
import type { EnginesRecord, PolicyRef } from '../../../contracts/policy.types.ts'
import type {
  JobPlanRecord,
  KeptPolicies,
  Promotion,
  TrainingAlarm,
  TrainingRecord,
} from '../../../contracts/training.types.ts'
import type { TreeFile, WeightsRecord } from '../weights/stored-tree.ts'
import { stageScore } from './evaluation-shapes.ts'
import { anything, count, integer, listOf, mapOf, nullable, number, object, oneOf, size, text } from './shape.ts'

export const policyRef = object<PolicyRef>({
  version: text,
  uri: text,
  manifestSha256: text,
  globalStep: count,
  checkpointUri: nullable(text),
  checkpointSha256: nullable(text),
})

export const promotion = object<Promotion>({
  schema: oneOf('longhaul.promotion/1'),
  number: count,
  run: text,
  policy: policyRef,
  score: stageScore,
})

export const keptPolicies = object<KeptPolicies>({
  schema: oneOf('longhaul.kept-policies/1'),
  policies: listOf(policyRef),
})

/** The steps are what the trainer logged. Their readers check each figure. */
export const training = object<TrainingRecord>({
  schema: oneOf('longhaul.training/1'),
  stage: text,
  iteration: size,
  slice: size,
  policy: text,
  steps: listOf(mapOf(anything)),
  alarms: listOf(
    object<TrainingAlarm>({
      step: integer,
      metric: text,
      value: nullable(number),
      limit: number,
      side: oneOf('above', 'below'),
    }),
  ),
})

const policyHash = object<PolicyHash>({ version: text, manifestSha256: nullable(text) })

export const lineage = object<LineageRecord>({
  schema: oneOf('longhaul.lineage/1'),
  policy: policyHash,
  parent: policyHash,
  by: object<LineageRecord['by']>({ run: text, stage: text, iteration: size, slice: size }),
  jobKey: text,
  batchSha256: text,
})

export const engines = object<EnginesRecord>({
  schema: oneOf('longhaul.engines/1'),
  host: text,
  urls: listOf(text),
})

export const jobPlan = object<JobPlanRecord>({ schema: oneOf('longhaul.job-plan/1'), totalSteps: count })

const treeFiles = listOf(object<TreeFile>({ path: text, bytes: count, blobs: listOf(text) }))

export const weights = object<WeightsRecord>({
  schema: oneOf('longhaul.weights/1'),
  policy: policyRef,
  trees: object<WeightsRecord['trees']>({ policy: treeFiles, checkpoint: nullable(treeFiles) }),
})
