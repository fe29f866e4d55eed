/** Data of the pages, as plain JSON. The browser's sources import these types too. */
import type { AuditOutcome, AuditReason } from '../contracts/audit.types.ts'
import type { Disposition, ExecutionSummary, FormatError, VerdictKind } from '../contracts/episodes.types.ts'
import type { HackSign } from '../contracts/hack-signs.ts'
import type { ExecutionHistory } from '../contracts/histories.types.ts'
import type { NightOutcome, NightPoint, NightVerdict } from '../contracts/nights.types.ts'
import type { TrainingAlarm } from '../contracts/training.types.ts'
import type { Dependency } from '../contracts/waits.types.ts'
import type { CurvePoint } from '../report/report-data.ts'
import type { Table } from '../report/tables.ts'

export interface RunsPage {
  kind: 'runs'
  /** The latest start first; runs of earlier versions that the server no longer knows have no start, and come last. */
  runs: RunLine[]
}

export interface RunLine {
  run: string
  /** `train`, `eval`, `gate` or `grade`. */
  kind: string
  recipe: string
  /** `running`, `completed`, `failed`, … as the server says it; without a server `completed` or null. */
  state: string | null
  /** ISO times; null where neither the server nor a record tells. */
  startedAt: string | null
  endedAt: string | null
  /** Its last evaluation of the held-out suite. */
  score: { name: string; passAt1: number; sem: number; tasks: number } | null
}

/** What is read of a run fast. Episodes and tables take longer and have pages of their own. */
export interface RunPage {
  kind: 'run'
  run: string
  /** `train`, `eval`, `gate` or `grade`. */
  runKind: string
  workflowId: string | null
  recipe: { name: string; hash: string; seed: number; base: string } | null
  evaluations: EvaluationLine[]
  training: TrainingLine[]
  /** Series of nights that its evaluations joined. */
  series: string[]
}

/** What a run waits for, from the server and not from records. */
export interface BlockersPage {
  kind: 'blockers'
  run: string
  /** Why there is no answer; null if the server gave one. */
  why: string | null
  /** Null if there is no answer, or the run has ended. */
  open: { blockers: BlockerLine[]; notLookedAt: number } | null
  /** From the server, else from the records: a run without a report may be live. */
  isPlayed: boolean
}

/** One thing that a run waits for, as `longhaul run blockers` prints it. */
export interface BlockerLine {
  on: Dependency
  doing: string
  /** ISO time. */
  since: string
  /** The workflow that has waited longest. */
  for: { workflowId: string }
  count: number
  error: { code: string | null; message: string } | null
  toDo: string
}

export interface EvaluationLine {
  name: string
  stage: string
  suite: string
  policy: string
  passAt1: number
  sem: number
  interval: { low: number; high: number } | null
  tasks: number
  attempts: number
  infra: number
  suspectedHacks: number
}

export interface TrainingLine {
  stage: string
  iteration: number
  slice: number
  /** Metrics of each optimizer step by name. */
  steps: Record<string, number>[]
  alarms: TrainingAlarm[]
}

export interface ReportPage {
  kind: 'report'
  run: string
  tables: Table[]
  curve: CurvePoint[]
  /** Why there is no report and only tables of costs; null if there is a report. */
  problem: string | null
}

export interface EpisodesPage {
  kind: 'episodes'
  run: string
  rows: EpisodeRow[]
}

/** `unreadable`: its last record does not match its hash. */
export type EpisodeState = Disposition | 'running' | 'unreadable'

export interface EpisodeRow {
  episode: string
  stage: string
  iteration: number
  taskId: string
  index: number
  state: EpisodeState
  verdict: VerdictKind | null
  reason: string | null
  failure: string | null
  hack: boolean
  signs: HackSign[]
  audit: AuditOutcome | null
  turns: number | null
  sampledTokens: number | null
  patchBytes: number | null
}

/** A text of any size: `text` is its beginning, `chars` its whole length. */
export interface ShownText {
  text: string
  chars: number
}

/** What an episode's page holds of each turn: everything but the full texts. */
export interface TurnLine {
  turn: number
  /** Beginning of the command; null for a turn without one. */
  command: string | null
  formatError: FormatError | null
  /** False if the turn has no observation (yet). */
  isAnswered: boolean
  /** Null if nothing ran; so are `ended` and `wallMs`. */
  exitCode: number | null
  ended: string | null
  wallMs: number | null
  sampledAtMs: number
  sampleMs: number
  observedAtMs: number | null
}

/** A turn with the beginnings of its texts. */
export interface TurnView {
  turn: number
  reply: ShownText
  command: ShownText | null
  formatError: FormatError | null
  finishReason: string
  policy: string
  sampledTokens: number
  sampledAtMs: number
  sampleMs: number
  /** Null if the turn has none (yet). */
  observation: ObservationView | null
}

export interface ObservationView {
  text: ShownText
  execution: ExecutionSummary | null
  cwd: string
  openFile: string | null
  observedAtMs: number
}

export interface VerdictView {
  kind: VerdictKind
  reason: string | null
  profile: string
  from: 'container' | 'gate'
  failToPass: { passed: number; total: number }
  passToPass: { passed: number; total: number }
  gradeMs: number
  image: string
  audit: { outcome: AuditOutcome; reasons: { reason: AuditReason; says: string }[]; detail: string | null } | null
}

/** An event of an episode outside its turns. */
export interface Moment {
  what: 'placement' | 'grading-attempt'
  /** ms since 1970. */
  atMs: number
  note: string
}

/** A bar of the timeline; times are ms since the timeline's zero. */
export interface TimelineBar {
  what: 'placement' | 'sampling' | 'waiting' | 'execution' | 'grading-attempt'
  turn: number | null
  fromMs: number
  toMs: number
  note: string
}

export interface EpisodePage {
  kind: 'episode'
  row: EpisodeRow
  policy: string | null
  repo: string | null
  statement: ShownText | null
  startedAtMs: number | null
  turns: TurnLine[]
  moments: Moment[]
  patch: ShownText | null
  verdict: VerdictView | null
  tests: TestView[]
  log: ShownText | null
  /** Null if the stage pays no reward, or the episode has none. */
  reward: { reward: number; parts: { name: string; value: number }[] } | null
  signs: { sign: HackSign; says: string; voidsReward: boolean }[]
  /** All attempts at the task in the same stage and iteration, this one included. */
  siblings: Pick<EpisodeRow, 'episode' | 'index' | 'state' | 'verdict'>[]
  /** Whether the trainer read its tokens. */
  hasTokens: boolean
}

/** The episode's executions as the server reports them; `EpisodePage` has what the records contain. */
export interface HistoryPage {
  kind: 'history'
  episode: string
  shows: 'server' | 'records'
  /** Why only records are shown; null if the server answered. */
  why: string | null
  /** Time of the server's answer, ms since 1970; open activities last at least until then. */
  atMs: number
  /** Oldest first. */
  executions: ExecutionHistory[]
}

/** A bar or a moment of the history, ms since 1970. */
export interface HistoryBar {
  /** `retries`: earlier attempts with their queues, whose separate times the server does not keep. */
  what: 'queue' | 'retries' | 'resuming' | 'placing' | 'playing' | 'grading' | 'other'
  fromMs: number
  toMs: number
  note: string
}

/** A row of the history table. */
export interface HistoryRow {
  atMs: number
  /** Time in the queue; null if no attempt has begun, or if there were several. */
  queuedMs: number | null
  ranMs: number | null
  activity: string
  queue: string
  attempt: number
  state: string
  note: string
  isFault: boolean
}

/** A listed test. `after` is null without a readable log. */
export interface TestView {
  name: string
  list: 'FAIL_TO_PASS' | 'PASS_TO_PASS'
  before: 'fails' | 'passes'
  after: string | null
}

/** One part of an episode's turns, numbered from `TURNS_IN_PART * part`. */
export interface TurnsPage {
  kind: 'turns'
  episode: string
  part: number
  turns: TurnView[]
}

/** The full texts of one turn. */
export interface TurnPage {
  kind: 'turn'
  episode: string
  turn: number
  reply: string
  command: string | null
  observation: string | null
}

/** One row of a batch, as the trainer read it; arrays have an entry per token. */
export interface TokensPage {
  kind: 'tokens'
  episode: string
  /** Key of the batch file. */
  batch: string
  ids: number[]
  /** Text of each id; null without a tokenizer. */
  pieces: string[] | null
  mask: number[]
  advantages: number[] | null
  logprobs: number[] | null
  /** The trainer's own log-probabilities before its first step, 0 where not trained on; null if it stored none. */
  proximal: number[] | null
  /** exp(proximal − sampled), 0 where not trained on; null if either is missing. */
  ratios: number[] | null
  /** Bounds of the stage's clip, applied to that ratio for display; null in fine-tuning. */
  clip: { low: number; high: number } | null
  /** Index into `policies`; −1 = not sampled. */
  versions: number[]
  policies: string[]
}

export interface ComparePage {
  kind: 'compare'
  before: ComparedSide
  after: ComparedSide
  tables: Table[]
  warnings: string[]
  /** Changed tasks first. */
  tasks: ComparedTask[]
}

export interface ComparedSide {
  run: string
  name: string
  policy: string
}

export interface ComparedTask {
  taskId: string
  before: ComparedAttempts
  after: ComparedAttempts
  /** Share resolved after − before; null if one side has no outcome. */
  difference: number | null
}

export interface ComparedAttempts {
  resolved: number
  attempts: number
  episodes: { episode: string; verdict: VerdictKind | null }[]
}

/** The index of all series of nights. */
export interface NightsPage {
  kind: 'nights'
  /** `last`: the newest evaluation whose record is readable. */
  series: { series: string; evaluations: number; last: TrendNight | null }[]
}

/** Nights of one series, oldest first. */
export interface TrendPage {
  kind: 'trend'
  series: string
  nights: TrendNight[]
  /** Number of evaluations before the shown ones. */
  earlier: number
  /** Number of records that do not match their hash. */
  unreadable: number
}

export interface TrendNight extends Omit<NightPoint, 'series' | 'interval' | 'outcomes'> {
  /** Which evaluation of its night: `main`, `suite:<name>`, `policy:<version>`. */
  role: string
  interval: { low: number; high: number } | null
  verdicts: TrendVerdict[]
}

export interface TrendVerdict {
  against: NightVerdict['against']
  outcome: NightOutcome
  statement: string
  /** The other side of the comparison; null if there is none. */
  before: { run: string; name: string } | null
}

export type Page =
  | RunsPage
  | RunPage
  | BlockersPage
  | ReportPage
  | EpisodesPage
  | EpisodePage
  | HistoryPage
  | TurnsPage
  | TurnPage
  | TokensPage
  | ComparePage
  | NightsPage
  | TrendPage

/** Messages of a live connection, one JSON object each. */
export type LiveMessage =
  | { kind: 'turn'; turn: TurnView }
  | { kind: 'rows'; rows: EpisodeRow[] }
  /** The episode has its last record, so its page must be read again. */
  | { kind: 'ended' }
