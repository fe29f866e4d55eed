/** Suites made from published data sets: where they come from, what was left out and why. */

/** Where rows are read from. */
export type ImportSource =
  /** A split label is the publisher's own grouping; it says nothing certain about when tasks were made. */
  { kind: 'hub'; dataset: string; revision: string; split: string } | { kind: 'file'; path: string }

/** Which split of which commit `split: newest` stood for, once for each suite of a run. */
export interface PinnedSplit {
  schema: 'longhaul.pinned-split/1'
  dataset: string
  revision: string
  split: string
  /** Newer splits that were not whole at that commit. */
  passedOver: string[]
}

/** A file that was read: its content is pinned by `id` (SHA-256, or the hub's own id of it). */
export interface ImportedFile {
  path: string
  bytes: number
  id: string | null
}

/** One step of curation. Steps are applied in order; each sees what the one before it kept. */
export type SuiteFilter =
  /** Created at or after `from` and before `before` (ISO dates): a cut-off against contamination, not a split. */
  | { kind: 'created'; from: string | null; before: string | null }
  | { kind: 'ids'; ids: string[] }
  /** Files that the gold patch touches, by the row's own count where it has one. */
  | { kind: 'max-files'; max: number }
  /** Lines added and removed by the gold patch. */
  | { kind: 'max-lines'; max: number }
  /** Drops a task of which any published score of the quality model is this value. */
  | { kind: 'llm-score'; drop: number }
  /** Drops a task whose tests, run without the gold patch, miss a name that only the gold patch brings. */
  | { kind: 'hidden-names' }
  /** Keeps a task whose listed tests agreed in at least this many runs with the gold patch. */
  | { kind: 'deterministic'; trials: number }

/** What running a task showed, one line a task; the two filters above that need it read it. */
export interface TaskEvidence {
  instance_id: string
  /** Log of its tests with the test patch and without the gold patch. */
  emptyLog?: string
  /** Statuses of its tests in each run with the gold patch. */
  goldRuns?: Record<string, string>[]
  /** The same in short: how many runs there were, and the listed tests that did not end alike in all of them. */
  gold?: { runs: number; flipping: string[] }
}

export interface FilterCount {
  filter: SuiteFilter
  kept: number
  dropped: number
  /** Dropped too, because the task lacks what the filter reads. */
  lacking: number
}

/** Tasks that fail the same filters. */
export interface FilterClass {
  dropped: SuiteFilter[]
  /** Filters whose data they do not have. */
  lacking: SuiteFilter[]
  tasks: number
}

export interface RefusedRow {
  /** Counted from 1 over all rows of the source. */
  row: number
  /** Where it stands in its file. */
  at: string
  taskId: string | null
  column: string
  reason: string
}

/** A suite's record: equal rows, source and filters have the same hash. */
export interface ImportedSuite {
  schema: 'longhaul.imported-suite/1'
  hash: string
  source: ImportSource
  files: ImportedFile[]
  counts: { rows: number; refused: number; accepted: number; kept: number }
  filters: FilterCount[]
  /** Kept tasks by grading profile. */
  profiles: Record<string, number>
  /** Kept tasks whose log parser this version does not have. */
  unsupported: number
  refused: RefusedRow[]
  tasks: { taskId: string; rowHash: string }[]
}

/** What was found when a run's training tasks were held against all that it evaluates. */
export interface OverlapRecord {
  schema: 'longhaul.overlap/1'
  run: string
  /** Hashes of suites. */
  train: string
  evaluated: string[]
  /** Training tasks that were compared. */
  tasks: number
  /** `as` = its id in the evaluated suite. */
  overlaps: { taskId: string; suite: string; as: string; same: ('id' | 'commit' | 'statement')[] }[]
  /** Tasks that the run never trains on because of it. */
  excluded: string[]
}

/** A file of rows as it was read. */
export interface RowsFile {
  name: string
  sha256: string
  /** The record of `longhaul tasks import` beside it; null where there is none, or where it is of other rows. */
  imported: ImportedSuite | null
}

/** Where the rows of a suite come from, short enough to stand in a report. */
export interface SuiteOrigin {
  schema: 'longhaul.suite-origin/1'
  /** `OWNER/NAME` of a hub, name of a file, or family of synthesised tasks. */
  dataset: string
  /** Commit of the hub; seed of synthesised tasks; null for a file, whose hash it is that pins it. */
  revision: string | null
  split: string | null
  /** The files that were read; `sha256` may be the hub's own id of one, and is null where unknown. */
  files: { name: string; sha256: string | null }[]
  /** In the words of `--filter`, in order; `kept` is null where only rows and no counts are left. */
  filters: { filter: string; kept: number | null }[]
}

/** Records which suite an import produced. */
export interface MadeSuite {
  schema: 'longhaul.made-suite/1'
  suite: string
}

export interface PinnedFile {
  path: string
  url: string
  sha256: string
  bytes: number
}

/** What the files of a row were when it was first graded, in the row's order. */
export interface PinnedFilesRecord {
  schema: 'longhaul.pinned-files/1'
  taskId: string
  rowHash: string
  files: PinnedFile[]
}

/** A row as published. */
export interface RowRecord {
  schema: 'longhaul.row/1'
  row: Record<string, unknown>
}
