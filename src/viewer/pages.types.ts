/** What the pages show: plain JSON, made from stored records alone. The browser's sources read these types too. */
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
  runs: { run: string; kind: string; recipe: string }[]
}

/** What is known of a run at once. Episodes and tables have documents of their own: they take longer. */
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

/** What a run waits for, asked of the server and not of records. */
export interface BlockersPage {
  kind: 'blockers'
  run: string
  /** Why there is no answer; null where the server gave one. */
  why: string | null
  /** Null where there is no answer, or the run has ended. */
  open: { blockers: BlockerLine[]; notLookedAt: number } | null
  /** By the server. Where none answers, by the records: a run that has no report may be played. */
  isPlayed: boolean
}

/** One thing that a run waits for, as `longhaul run blockers` says it. */
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
  /** Numbers of each optimizer step by name. */
  steps: Record<string, number>[]
  alarms: TrainingAlarm[]
}

export interface ReportPage {
  kind: 'report'
  run: string
  tables: Table[]
  curve: CurvePoint[]
  /** Why there is no report, and no table but those of the cost; null where there is one. */
  problem: string | null
}

export interface EpisodesPage {
  kind: 'episodes'
  run: string
  rows: EpisodeRow[]
}

/** `unreadable`: its last record does not pass its own hash. */
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

/** What an episode's page says of each of its turns at once: everything but the texts. */
export interface TurnLine {
  turn: number
  /** Its beginning; null for a turn without one. */
  command: string | null
  formatError: FormatError | null
  /** False where the turn has no answer yet, or never got one. */
  isAnswered: boolean
  /** Null where nothing ran; so are `ended` and `wallMs`. */
  exitCode: number | null
  ended: string | null
  wallMs: number | null
  sampledAtMs: number
  sampleMs: number
  observedAtMs: number | null
}

/** A turn with its texts, as far as they are shown at once. */
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
  /** Null where the turn has no answer yet, or never got one. */
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

/** Something that happened to an episode outside its turns. */
export interface Moment {
  what: 'placement' | 'grading-attempt'
  /** Since 1970. */
  atMs: number
  note: string
}

/** A bar of the timeline: milliseconds since its zero. */
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
  /** Null where the stage pays no reward, or the episode has none. */
  reward: { reward: number; parts: { name: string; value: number }[] } | null
  signs: { sign: HackSign; says: string; voidsReward: boolean }[]
  /** Other attempts at the task, in the same stage and iteration. */
  siblings: Pick<EpisodeRow, 'episode' | 'index' | 'state' | 'verdict'>[]
  /** Whether the trainer read its tokens. */
  hasTokens: boolean
}

/** The episode's executions in the server's words; the page of the episode has what the records say. */
export interface HistoryPage {
  kind: 'history'
  episode: string
  shows: 'server' | 'records'
  /** Why there is only what the records say; null where the server answered. */
  why: string | null
  /** Of the look, ms since 1970: what is open lasts until then at least. */
  atMs: number
  /** The oldest first. */
  executions: ExecutionHistory[]
}

/** A bar or a moment of the history, ms since 1970. */
export interface HistoryBar {
  /** `retries`: earlier attempts with their queues, whose own times the server does not keep. */
  what: 'queue' | 'retries' | 'resuming' | 'placing' | 'playing' | 'grading' | 'other'
  fromMs: number
  toMs: number
  note: string
}

/** A line of the table of what the server tells. */
export interface HistoryRow {
  atMs: number
  /** Until the last attempt began; null where none has, or where several attempts share the time. */
  queuedMs: number | null
  ranMs: number | null
  activity: string
  queue: string
  attempt: number
  state: string
  note: string
  isFault: boolean
}

/** A listed test. `after` is null where no log says. */
export interface TestView {
  name: string
  list: 'FAIL_TO_PASS' | 'PASS_TO_PASS'
  before: 'fails' | 'passes'
  after: string | null
}

/** Some turns of an episode, numbered from `TURNS_IN_PART * part`. */
export interface TurnsPage {
  kind: 'turns'
  episode: string
  part: number
  turns: TurnView[]
}

/** All of one turn's texts. */
export interface TurnPage {
  kind: 'turn'
  episode: string
  turn: number
  reply: string
  command: string | null
  observation: string | null
}

/** One row of a batch: arrays run over its tokens, as the trainer read them. */
export interface TokensPage {
  kind: 'tokens'
  episode: string
  /** Key of the batch file. */
  batch: string
  ids: number[]
  /** Text of each id; null where no tokenizer is at hand. */
  pieces: string[] | null
  mask: number[]
  advantages: number[] | null
  logprobs: number[] | null
  /** The trainer's own log-probabilities before its first step, 0 where not trained on; null where it kept none. */
  proximal: number[] | null
  /** exp(proximal − sampled), 0 where not trained on; null where either is missing. */
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
  /** Tasks that changed first. */
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
  /** Share resolved after − before; null where one side has no outcome. */
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

/** Nights of one series, the oldest first. */
export interface TrendPage {
  kind: 'trend'
  series: string
  nights: TrendNight[]
  /** Before those that are shown. */
  earlier: number
  /** Records that do not pass their own hash. */
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
  /** The other side of the comparison; null where there is none. */
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

/** What a live connection sends, one JSON object a message. */
export type LiveMessage =
  | { kind: 'turn'; turn: TurnView }
  | { kind: 'rows'; rows: EpisodeRow[] }
  /** The episode has its last record: its page is to be read again. */
  | { kind: 'ended' }
