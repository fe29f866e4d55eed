import type { SyntheticFamily } from './synthetic-families.ts'

/** How a task is graded: which upstream harness is imitated byte for byte. */
export type GradingProfile = 'fork-4.0.3' | 'swebench-4.1' | 'swebench-5' | 'rebench-v2'

/** A row of the SWE-rebench schema, columns and spelling as published (nebius/SWE-rebench); unknown columns are kept. */
export interface SweRebenchRow {
  instance_id: string
  repo: string
  base_commit: string
  environment_setup_commit: string
  patch: string
  test_patch: string
  problem_statement: string
  hints_text: string
  created_at: string
  version: string
  FAIL_TO_PASS: string[]
  PASS_TO_PASS: string[]
  FAIL_TO_FAIL: string[]
  PASS_TO_FAIL: string[]
  install_config: { python: string; install?: string; test_cmd: string; log_parser: string; [key: string]: unknown }
  requirements: string
  environment: string
  license_name: string
  docker_image: string | null
  image_name: string | null
  meta: Record<string, unknown>
  [column: string]: unknown
}

/** One problem, normalised. What the agent may see is `statement` and the image; everything else is the grader's. */
export interface Task {
  /** The data set's instance id. */
  taskId: string
  repo: string
  baseCommit: string
  statement: string
  goldPatch: string
  testPatch: string
  failToPass: string[]
  passToPass: string[]
  gradingProfile: GradingProfile
  /** `testCmd` is empty where the harness itself knows it, by repository and version or by a script of the row. */
  installConfig: { install: string | null; testCmd: string; logParser: string }
  /** What harnesses other than the fork's read beside that; absent for its rows. */
  harness?: TaskHarness
  /** Where the row cannot be run as upstream would; absent where it can. */
  deviations?: 'list-command'[]
  image: string
  /** Directory of the repository inside the image. */
  repoDir: string
  /** Present where the image can be rebuilt from a seed on any host. */
  synthetic: SyntheticSource | null
  /** When the data set says it came into being, as published; null where it does not. */
  createdAt: string | null
  /** SHA-256 of the row it came from. */
  rowHash: string
}

export interface TaskHarness {
  version: string | null
  /** The script of a v5 row. */
  evalScript: string | null
  evalType: 'pass_and_fail' | 'fail_only' | null
  language: string | null
  /** Binary files that the patches of a v5 row need, in the order in which they are laid; absent where there are none. */
  assets?: TaskAsset[]
}

export interface TaskAsset {
  /** In the repository. */
  path: string
  /** Null: the data set does not say where it is. */
  url: string | null
  /** Of its bytes, where the row states it. */
  sha256?: string
}

/** Regenerates a synthesised task exactly: same source, same bytes, on every machine. */
export interface SyntheticSource {
  family: SyntheticFamily
  seed: number
  split: 'train' | 'eval'
  index: number
}

/** Which tasks a recipe asks for. */
export type SuiteSource =
  | {
      kind: 'synthetic'
      family: SyntheticFamily
      seed: number
      split: 'train' | 'eval'
      count: number
      offset: number
    }
  | { kind: 'rows'; path: string; limit: number | null }
  /** Read, checked and filtered when the run starts, and kept with it. The revision is a commit; null only with `split: newest`. */
  | ({ kind: 'hub'; dataset: string; revision: string | null; split: string } & PublishedPart)
  | ({ kind: 'file'; path: string } & PublishedPart)

/** Of a hub's data set: the newest monthly split that it holds when a run prepares the suite. */
export const NEWEST_SPLIT = 'newest'

/** What of a published data set is wanted. */
export interface PublishedPart {
  /** In the words of `longhaul tasks import --filter`, applied in order. */
  filters: string[]
  /** Only these, before all other filters; null = all. */
  ids: string[] | null
  /** JSONL of what running the tasks showed; null = none. */
  evidence: string | null
  /** Rows that could not be graded exactly: end the run, or are left out and listed. */
  refused: 'fail' | 'exclude'
  /** Counts what the filters leave. */
  limit: number | null
}

/** An ordered, pinned set of tasks, addressed by hash. */
export interface SuiteManifest {
  /** SHA-256 over source and row hashes. */
  hash: string
  name: string
  source: SuiteSource
  taskIds: string[]
}
