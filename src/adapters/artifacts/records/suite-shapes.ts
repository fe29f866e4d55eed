import type { PinnedFilesRecord } from '../../../contracts/suites.types.ts'
import type {
  FilterCount,
  ImportedFile,
  ImportedSuite,
  ImportSource,
  MadeSuite,
  OverlapRecord,
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
  anything,
  count,
  integer,
  listOf,
  mapOf,
  nullable,
  number,
  object,
  oneOf,
  size,
  text,
  variants,
} from './shape.ts'

export const gradingProfile = oneOf('fork-4.0.3', 'swebench-4.1', 'swebench-5', 'rebench-v2')

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
