import type { AuditVerdict } from './audit.types.ts'
import type { HackSign } from './hack-signs.ts'
import type { ChatFormatName, ChatMessage, TokenUsage } from './policy.types.ts'
import type { GradingMachine, NetworkUse } from './sandbox.types.ts'

/** How an episode ended. */
export const DISPOSITIONS = [
  'submitted',
  'turn-limit',
  'context-limit',
  'time-limit',
  'agent-gave-up',
  'infra',
  'cancelled',
  'stale',
] as const
export type Disposition = (typeof DISPOSITIONS)[number]

/** Endings that the policy caused. Only these episodes may enter a batch. */
export type PolicyDisposition = Extract<
  Disposition,
  'submitted' | 'turn-limit' | 'context-limit' | 'time-limit' | 'agent-gave-up'
>

export type VerdictKind = 'resolved' | 'unresolved' | 'could-not-grade'

/** Purpose of an episode. Keys, records, ids and messages store it as the text `stage`, which only `episode-purpose.ts` formats and parses. */
export type EpisodePurpose =
  | { kind: 'rft' }
  | { kind: 'reinforce'; stage: string }
  | ({ kind: 'evaluation' } & EvaluationPurpose)

/** Which evaluation of a run. */
export interface EvaluationPurpose {
  /** The last training before it: `base`, `rft`, a reinforce stage, or `rl` after the last one. The recipe's name if the run only evaluates. */
  name: string
  /** Iteration of the stage `name` that it follows; null between stages. */
  iteration: number | null
  /** One of `evaluate.suites`; null for the held-out suite. */
  suite: string | null
}

/** Position in a run. */
export interface Coordinates {
  run: string
  /** The purpose as text: `rft`, `dapo-1`, `eval-base`. Part of the episode's seeds. */
  stage: string
  iteration: number
}

export interface EpisodeIdentity extends Coordinates {
  taskId: string
  /** Index within the group. A replacement for an `infra` episode takes the next free index. */
  index: number
}

/** One placement of an episode and its owner. The first record wins. */
export interface PlacementRecord {
  schema: 'longhaul.placement/1'
  episode: string
  /** Counted over all executions of the episode, from 1. */
  placement: number
  /** Execution of the owner that requested it. */
  ownerRun: string
  /** Number of the placement within that execution, from 1. Records of earlier versions lack it; there it equals `placement`. */
  requested?: number
  hostId: string
  image: string
  placedAtMs: number
}

/** How the policy's part of an episode ended. The first record wins. */
export interface DispositionRecord {
  schema: 'longhaul.disposition/1'
  episode: string
  disposition: Disposition
  turns: number
}

/** What the worker captured from the sandbox of a submitted episode. The first capture is the submission. */
export interface CaptureRecord {
  schema: 'longhaul.capture/1'
  episode: string
  mode: 'unstaged' | 'all'
  lostFiles: number
  failure: string | null
  sha256OfPatch: string
  bytes: number
}

/** All inputs of one episode, stored once at `episodes/<episode>/spec.json`. */
export interface EpisodeSpec extends EpisodeIdentity {
  schema: 'longhaul.episode/1'
  episode: string
  recipeSeed: number
  suiteHash: string
  policy: string
  scaffold: string
  /** Absent for `chatml`, the only format of earlier versions. */
  chatFormat?: ChatFormatName
  /** The scaffold's worked example is in the prompt (RFT data collection with a base policy). */
  demonstration: boolean
  sampling: SamplingOptions
  limits: EpisodeLimits
  capture: 'unstaged' | 'all'
}

/** Every decoding field is explicit, because the server would use its own default for a missing one. */
export interface SamplingOptions {
  temperature: number
  topP: number
  /** −1 = off */
  topK: number
  minP: number
  repetitionPenalty: number
  presencePenalty: number
  frequencyPenalty: number
}

export interface EpisodeLimits {
  maxTurns: number
  contextTokens: number
  maxTokensPerTurn: number
  commandTimeoutMs: number
  episodeTimeoutMs: number
  turnsPerStep: number
}

/** Why a reply contained no runnable command. */
export type FormatError = 'cannot_extract_command' | 'multiple_commands'

/** What a chat endpoint reported besides its text. */
export interface ChatAnswer {
  /** Name that the endpoint reports; null if it reports none. */
  model: string | null
  /** The endpoint's finish reason: `stop`, `length`, `content_filter`, … */
  ending: string
  /** Null if the endpoint reports no counts. */
  usage: TokenUsage | null
}

/** The sampled half of a turn, stored before its command runs. Token ids are never derived from text again. */
export interface ActionRecord {
  schema: 'longhaul.action/1'
  episode: string
  turn: number
  /** Ids added to the context before this sample: the whole first prompt for turn 0, later the ids after the last sampled one. */
  promptDelta: number[]
  /** Sampled ids as the server returned them, including a sampled end-of-turn token. */
  ids: number[]
  /** Natural log, at the sampling temperature, one per id. */
  logprobs: number[]
  text: string
  finishReason: 'stop' | 'length'
  policy: string
  seed: number
  /** Present if a chat endpoint answered. Such a turn has no ids and is never trained on. */
  chat?: ChatAnswer
  formatError: FormatError | null
  /** Null if the reply contained no command. */
  command: string | null
  /** Random key of the turn in the sandbox journal, generated here so that a retry finds the same entry. */
  token: string
  /** When the policy was asked, ms since 1970, by the worker's clock. */
  sampledAtMs: number
  /** Duration of the request that was answered, without failed tries and the waits before them. */
  sampleMs: number
}

/** Shell and tool state that continues from turn to turn. The record contains it so that a sandbox can be rebuilt. */
export interface SandboxState {
  cwd: string
  /** `export -p` text of the command shell. */
  environment: string
  umask: string
  openFile: string | null
  /** First line shown of the open file, 1-based; 0 when none. */
  windowTop: number
  submitted: boolean
}

/** Start of an episode, stored once before the first sample. */
export interface EpisodeStart {
  schema: 'longhaul.episode-start/1'
  episode: string
  state: SandboxState
  /** First prompt as the policy reads it. */
  promptIds: number[]
  /** First prompt for training if it differs (without the demonstration); otherwise null. */
  trainingPromptIds: number[] | null
  /** Present with a chat endpoint: the first prompt as messages instead of ids. */
  messages?: ChatMessage[]
  startedAtMs: number
}

/** The sandbox's half of a turn, stored before the next action is sampled. */
export interface ObservationRecord {
  schema: 'longhaul.observation/1'
  episode: string
  turn: number
  /** Text that the policy sees, including the prompt line. */
  text: string
  /** Null on a format error: nothing ran. */
  execution: ExecutionSummary | null
  state: SandboxState
  observedAtMs: number
}

/** Hash of the sandbox after a turn, compared when a lost sandbox is rebuilt. Not every turn has one. */
export interface TreeRecord {
  schema: 'longhaul.tree/1'
  episode: string
  turn: number
  treeSha256: string
}

export interface ExecutionSummary {
  exitCode: number | null
  reason: 'exit' | 'signal' | 'timeout' | 'output-limit' | 'process-limit'
  outputBytes: number
  wallMs: number
  oomKilled: boolean
  /** Present if the turn used the network or requested a host that the recipe does not allow. */
  network?: NetworkUse
}

/** The outcome of grading one patch. */
export interface VerdictRecord {
  schema: 'longhaul.verdict/1'
  episode: string
  taskId: string
  kind: VerdictKind
  /** Reason of a verdict that no test result gave: `empty-patch`, `patch-did-not-apply`, `tests-timed-out`, … */
  reason: string | null
  profile: string
  /** Empty patches take the gate's result, without a container. */
  from: 'container' | 'gate'
  patchSha256: string
  failToPass: { passed: number; total: number }
  passToPass: { passed: number; total: number }
  gradeMs: number
  image: string
  /** Evidence of reward hacking in patch and log. It does not change the verdict. */
  signs: HackSign[]
  /** Whether every listed test passed, regardless of others. It accompanies the verdict of `rebench-v2`, which requires equal lists, and
   *  never replaces it. */
  subset?: boolean
  /** The task's suite, its data set and the revision of that. Absent in older records. */
  suite?: VerdictSuite
  /** Facts that determine the verdict. Absent if no container ran, and in older records. */
  provenance?: GradingProvenance
  /** The audit of a resolved patch. Absent for every other verdict, and in records of versions without audits. */
  audit?: AuditVerdict
}

export interface VerdictSuite {
  hash: string
  dataset: string
  /** Commit of the data set, or SHA-256 of the file of rows; null if unknown. */
  revision: string | null
}

/** Everything that is needed to repeat a verdict. */
export interface GradingProvenance {
  /** Imitated harness and its version, and the revision of the imitation. */
  upstream: string
  profileRevision: number
  rowHash: string
  /** Name in the row. The verdict's `image` has the digest. */
  imageReference: string
  machine: GradingMachine
  testTimeoutMs: number
  /** Exit code of the test command; null if it was killed. */
  exitCode: number | null
  logSha256: string
  /** Differences from upstream's run. */
  deviations: string[]
}

/** Tests of a patch exceeded their limit, or ended their own grading container, for the first time. The second time is a verdict. */
export interface GradingTimeOutRecord {
  schema: 'longhaul.grading-time-out/1'
  episode: string
  attempt: number
  hostId: string
  gradeMs: number
  atMs: number
}

/** One attempt at grading that failed through infrastructure. */
export interface GradingAttemptRecord {
  schema: 'longhaul.grading-attempt/1'
  episode: string
  attempt: number
  hostId: string
  failure: string
  message: string
  atMs: number
}

/** The last record of an episode. Ledger and statistics read only this one. */
export interface EpisodeRecord extends EpisodeIdentity {
  schema: 'longhaul.episode-result/1'
  episode: string
  policy: string
  disposition: Disposition
  /** Failure code of the dispositions `infra` and `agent-gave-up` (the policy ended its own sandbox). */
  failure: string | null
  verdict: VerdictKind | null
  verdictReason: string | null
  /** If set, rewards treat the episode as failed regardless of the verdict. */
  suspectedHack: boolean
  /** Signs of reward hacking in patch, log and commands. */
  signs: HackSign[]
  /** The audit of a resolved patch. Absent for every other verdict, and in older records. */
  audit?: Omit<AuditVerdict, 'auditMs'>
  /** Number of actions including format errors: |τ| of the paper. */
  turns: number
  formatErrorTurns: number
  /** Null if the chat endpoint reported no counts. */
  sampledTokens: number | null
  contextTokens: number | null
  /** Over all samples, including a last one that did not fit. Null if the endpoint reported no counts; absent in older records. */
  usage?: TokenUsage | null
  patchBytes: number
}
