/** What is played and how it is judged: suites and their tasks, gradings, gates. */
import type {
  FilterCount,
  ImportSource,
  ImportedFile,
  ImportedSuite,
  MadeSuite,
  OverlapRecord,
  PinnedFilesRecord,
  PinnedSplit,
  RefusedRow,
  RowRecord,
  SuiteFilter,
  SuiteOrigin,
} from '../../../contracts/suites.types.ts'
import { SYNTHETIC_FAMILIES } from '../../../contracts/synthetic-families.ts'
import type {
  PublishedPart,
  SuiteManifest,
  SuiteSource,
  SyntheticSource,
  Task,
  TaskAsset,
  TaskHarness,
} from '../../../contracts/tasks.types.ts'
import {
  absentable,
  amount,
  anything,
  count,
  integer,
  listOf,
  mapOf,
  nullable,
  number,
  object,
  oneOf,
  partialMapOf,
  share,
  size,
  text,
  variants,
} from './shape.ts'
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
import { audit, verdictKind } from './episode-shapes.ts'
import type { AuditOutcome } from '../../../contracts/audit.types.ts'
import type {
  FlippingTest,
  GateOutcome,
  GateRecord,
  GateReport,
  GatedSuite,
  ImageRecord,
  TaskGate,
} from '../../../contracts/gates.types.ts'

const gradingProfile = oneOf('fork-4.0.3', 'swebench-4.1', 'swebench-5', 'rebench-v2')

const family = oneOf(...SYNTHETIC_FAMILIES)
const split = oneOf('train', 'eval')

export const task = object<Task>({
  taskId: text,
  repo: text,
  baseCommit: text,
  statement: text,
  goldPatch: text,
  testPatch: text,
  failToPass: listOf(text),
  passToPass: listOf(text),
  gradingProfile,
  installConfig: object<Task['installConfig']>({ install: nullable(text), testCmd: text, logParser: text }),
  harness: absentable(
    object<TaskHarness>({
      version: nullable(text),
      evalScript: nullable(text),
      evalType: nullable(oneOf('pass_and_fail', 'fail_only')),
      language: nullable(text),
      assets: absentable(listOf(object<TaskAsset>({ path: text, url: nullable(text), sha256: absentable(text) }))),
    }),
  ),
  deviations: absentable(listOf(oneOf('list-command'))),
  image: text,
  repoDir: text,
  synthetic: nullable(object<SyntheticSource>({ family, seed: number, split, index: size })),
  // Suites of earlier versions have no dates.
  createdAt: absentable(nullable(text)),
  rowHash: text,
})

const published = {
  filters: listOf(text),
  ids: nullable(listOf(text)),
  evidence: nullable(text),
  refused: oneOf('fail', 'exclude'),
  limit: nullable(count),
} satisfies Record<keyof PublishedPart, unknown>

export const suiteSource = variants<SuiteSource, 'kind'>('kind', {
  synthetic: object<Extract<SuiteSource, { kind: 'synthetic' }>>({
    kind: oneOf('synthetic'),
    family,
    seed: number,
    split,
    count,
    offset: count,
  }),
  rows: object<Extract<SuiteSource, { kind: 'rows' }>>({ kind: oneOf('rows'), path: text, limit: nullable(count) }),
  hub: object<Extract<SuiteSource, { kind: 'hub' }>>({
    kind: oneOf('hub'),
    dataset: text,
    revision: nullable(text),
    split: text,
    ...published,
  }),
  file: object<Extract<SuiteSource, { kind: 'file' }>>({ kind: oneOf('file'), path: text, ...published }),
})

export const suiteManifest = object<SuiteManifest>({
  hash: text,
  name: text,
  source: suiteSource,
  taskIds: listOf(text),
})

export const suiteOrigin = object<SuiteOrigin>({
  schema: oneOf('longhaul.suite-origin/1'),
  dataset: text,
  revision: nullable(text),
  split: nullable(text),
  files: listOf(object<SuiteOrigin['files'][number]>({ name: text, sha256: nullable(text) })),
  filters: listOf(object<SuiteOrigin['filters'][number]>({ filter: text, kept: nullable(count) })),
})

const suiteFilter = variants<SuiteFilter, 'kind'>('kind', {
  created: object<Extract<SuiteFilter, { kind: 'created' }>>({
    kind: oneOf('created'),
    from: nullable(text),
    before: nullable(text),
  }),
  ids: object<Extract<SuiteFilter, { kind: 'ids' }>>({ kind: oneOf('ids'), ids: listOf(text) }),
  'max-files': object<Extract<SuiteFilter, { kind: 'max-files' }>>({ kind: oneOf('max-files'), max: count }),
  'max-lines': object<Extract<SuiteFilter, { kind: 'max-lines' }>>({ kind: oneOf('max-lines'), max: count }),
  'llm-score': object<Extract<SuiteFilter, { kind: 'llm-score' }>>({ kind: oneOf('llm-score'), drop: number }),
  'hidden-names': object<Extract<SuiteFilter, { kind: 'hidden-names' }>>({ kind: oneOf('hidden-names') }),
  deterministic: object<Extract<SuiteFilter, { kind: 'deterministic' }>>({
    kind: oneOf('deterministic'),
    trials: size,
  }),
})

const importSource = variants<ImportSource, 'kind'>('kind', {
  hub: object<Extract<ImportSource, { kind: 'hub' }>>({
    kind: oneOf('hub'),
    dataset: text,
    revision: text,
    split: text,
  }),
  file: object<Extract<ImportSource, { kind: 'file' }>>({ kind: oneOf('file'), path: text }),
})

export const importedSuite = object<ImportedSuite>({
  schema: oneOf('longhaul.imported-suite/1'),
  hash: text,
  source: importSource,
  files: listOf(object<ImportedFile>({ path: text, bytes: count, id: nullable(text) })),
  counts: object<ImportedSuite['counts']>({ rows: count, refused: count, accepted: count, kept: count }),
  filters: listOf(object<FilterCount>({ filter: suiteFilter, kept: count, dropped: count, lacking: count })),
  profiles: mapOf(count),
  unsupported: count,
  refused: listOf(object<RefusedRow>({ row: integer, at: text, taskId: nullable(text), column: text, reason: text })),
  tasks: listOf(object<ImportedSuite['tasks'][number]>({ taskId: text, rowHash: text })),
})

export const madeSuite = object<MadeSuite>({ schema: oneOf('longhaul.made-suite/1'), suite: text })

/** The row is content of a data set: its readers check each column. */
export const row = object<RowRecord>({ schema: oneOf('longhaul.row/1'), row: mapOf(anything) })

export const pinnedFiles = object<PinnedFilesRecord>({
  schema: oneOf('longhaul.pinned-files/1'),
  taskId: text,
  rowHash: text,
  files: listOf(object<PinnedFilesRecord['files'][number]>({ path: text, url: text, sha256: text, bytes: count })),
})

export const pinnedSplit = object<PinnedSplit>({
  schema: oneOf('longhaul.pinned-split/1'),
  dataset: text,
  revision: text,
  split: text,
  passedOver: listOf(text),
})

export const overlap = object<OverlapRecord>({
  schema: oneOf('longhaul.overlap/1'),
  run: text,
  train: text,
  evaluated: listOf(text),
  tasks: count,
  overlaps: listOf(
    object<OverlapRecord['overlaps'][number]>({
      taskId: text,
      suite: text,
      as: text,
      same: listOf(oneOf('id', 'commit', 'statement')),
    }),
  ),
  excluded: listOf(text),
})

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

const check = oneOf('gold', 'empty')

export const gate = object<GateRecord>({
  schema: oneOf('longhaul.gate/2'),
  taskId: text,
  run: text,
  check,
  repeat: size,
  verdict: verdictKind,
  reason: nullable(text),
  gradings: size,
  gradeMs: amount,
  audit: absentable(audit),
  peakMemoryBytes: nullable(count),
  imageDigest: text,
  profile: gradingProfile,
  notPassed: mapOf(text),
  exceptions: mapOf(count),
  missedNames: listOf(text),
  logKey: text,
})

const spread = nullable(object<{ p50: number; max: number }>({ p50: amount, max: amount }))
const AUDITS = ['agrees', 'void', 'unsupported'] as const satisfies readonly AuditOutcome[]

export const taskGate = object<TaskGate>({
  schema: oneOf('longhaul.task-gate/1'),
  run: text,
  taskId: text,
  rowHash: text,
  profile: gradingProfile,
  image: text,
  imageDigest: nullable(text),
  registryDigest: nullable(text),
  outcome: oneOf('passed', 'gold-fails', 'empty-resolves', 'flaky', 'not-auditable', 'could-not-gate'),
  reason: nullable(text),
  audits: absentable(partialMapOf(AUDITS, count)),
  failure: nullable(text),
  gradings: object<TaskGate['gradings']>({ gold: size, empty: size, made: size }),
  identity: nullable(text),
  regraded: size,
  flips: listOf(object<FlippingTest>({ check, test: text, statuses: mapOf(count) })),
  failing: listOf(text),
  exceptions: mapOf(count),
  hiddenNames: listOf(text),
  gradeMs: spread,
  peakMemoryBytes: nullable(count),
})

export const gatedSuite = object<GatedSuite>({
  schema: oneOf('longhaul.gated-suite/2'),
  suite: text,
  repeats: size,
  admitted: listOf(text),
  refused: listOf(object<GatedSuite['refused'][number]>({ taskId: text, reason: text })),
  digests: mapOf(text),
})

export const gateReport = object<GateReport>({
  schema: oneOf('longhaul.gate-report/1'),
  run: text,
  suite: text,
  name: text,
  origin: absentable(nullable(suiteOrigin)),
  repeats: size,
  tasks: count,
  counts: object<Record<GateOutcome, number>>({
    passed: count,
    'gold-fails': count,
    'empty-resolves': count,
    flaky: count,
    'not-auditable': count,
    'could-not-gate': count,
  }),
  gradings: object<GateReport['gradings']>({ total: count, made: size, reused: count }),
  gradeMs: spread,
  peakMemoryBytes: nullable(count),
  withoutMemory: count,
  gates: listOf(taskGate),
})

export const imageCheck = object<ImageRecord>({
  schema: oneOf('longhaul.image-check/1'),
  image: text,
  digest: text,
  repoDir: text,
  commit: text,
  head: text,
})
