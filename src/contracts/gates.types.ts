/** What gating a task showed: single gradings, a task's gate, a suite's gated list and the report. */
import type { AuditOutcome, AuditVerdict } from './audit.types.ts'
import type { VerdictKind } from './episodes.types.ts'
import type { SuiteOrigin } from './suites.types.ts'
import type { GradingProfile } from './tasks.types.ts'

export type GateCheck = 'gold' | 'empty'

/**
 * One grading of the gold patch, or of none. It belongs to no run and no suite: later gates of the same row in the same image
 * under the same limits reuse it.
 */
export interface GateRecord {
  schema: 'longhaul.gate/2'
  taskId: string
  /** The gate run that made it. */
  run: string
  check: GateCheck
  /** From 1. */
  repeat: number
  verdict: VerdictKind
  reason: string | null
  /** Containers that it took: two where the first may have been an accident of the machine. */
  gradings: number
  gradeMs: number
  /** Of the gold patch; absent for the empty one. */
  audit?: AuditVerdict
  /** Most memory that the container used, page cache included; null where the kernel does not say. */
  peakMemoryBytes: number | null
  imageDigest: string
  profile: GradingProfile
  /** Status of each listed test that did not pass; `MISSING` where the log has none. */
  notPassed: Record<string, string>
  /** How often the log names each kind of exception. */
  exceptions: Record<string, number>
  /** Lines of the log that say which name was missed, each once. */
  missedNames: string[]
  logKey: string
}

/** How a task's gate ended. All but `passed` are refused. */
export type GateOutcome = 'passed' | 'gold-fails' | 'empty-resolves' | 'flaky' | 'not-auditable' | 'could-not-gate'

/** A test whose status differed between repeats of one check. */
export interface FlippingTest {
  check: GateCheck
  test: string
  /** Repeats by status. */
  statuses: Record<string, number>
}

/** The gate of one task in one run. */
export interface TaskGate {
  schema: 'longhaul.task-gate/1'
  run: string
  taskId: string
  rowHash: string
  profile: GradingProfile
  image: string
  /** Null where no image could be verified. */
  imageDigest: string | null
  /** A registry's digest, the same on every host; null for an image that was made on one. */
  registryDigest: string | null
  outcome: GateOutcome
  /** In words; null where it passed. */
  reason: string | null
  /** What the audits of the gold patch said, each outcome with its count; absent in records of versions without audits. */
  audits?: Partial<Record<AuditOutcome, number>>
  /** Failure code where a failure kept it from being gated. */
  failure: string | null
  /** Gradings by check, and those that this run made itself. */
  gradings: { gold: number; empty: number; made: number }
  /** Key of the gradings, beside the task's id; null where there are none. */
  identity: string | null
  /** Repeats that needed a second container. */
  regraded: number
  flips: FlippingTest[]
  /** Listed tests that the gold patch does not make pass, in any repeat. */
  failing: string[]
  /** Exceptions in the logs of gold repeats that failed. */
  exceptions: Record<string, number>
  /** Names that tests miss without the gold patch and that it alone brings. */
  hiddenNames: string[]
  gradeMs: { p50: number; max: number } | null
  peakMemoryBytes: number | null
}

/** A suite whose gate is closed, for one run: only admitted tasks are ever sampled. */
export interface GatedSuite {
  schema: 'longhaul.gated-suite/2'
  suite: string
  repeats: number
  admitted: string[]
  refused: { taskId: string; reason: string }[]
  /** Registry digest of the images that admitted tasks were gated in; none for images that are made on each host. */
  digests: Record<string, string>
}

export type GateCounts = Record<GateOutcome, number>

/** Everything one gate run found. */
export interface GateReport {
  schema: 'longhaul.gate-report/1'
  run: string
  suite: string
  name: string
  /** Absent in reports of earlier versions. */
  origin?: SuiteOrigin | null
  repeats: number
  tasks: number
  counts: GateCounts
  gradings: { total: number; made: number; reused: number }
  /** Of a grading: the median over tasks of each one's median, and the longest of all. */
  gradeMs: { p50: number; max: number } | null
  peakMemoryBytes: number | null
  /** Tasks of which no grading could say its memory. */
  withoutMemory: number
  gates: TaskGate[]
}

/** The result of the check of an image. Keyed by digest, so that each image is checked once. */
export interface ImageRecord {
  schema: 'longhaul.image-check/1'
  image: string
  digest: string
  repoDir: string
  commit: string
  head: string
}
