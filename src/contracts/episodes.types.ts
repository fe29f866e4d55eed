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

/** Endings that are the policy's own doing: only these may enter a batch. */
export type PolicyDisposition = Extract<
  Disposition,
  'submitted' | 'turn-limit' | 'context-limit' | 'time-limit' | 'agent-gave-up'
>

export type VerdictKind = 'resolved' | 'unresolved' | 'could-not-grade'

/** What episodes are played for. Keys, records, ids and messages hold it as the text `stage`; `episode-purpose.ts` alone writes and reads that. */
export type EpisodePurpose =
  | { kind: 'rft' }
  | { kind: 'reinforce'; stage: string }
  | ({ kind: 'evaluation' } & EvaluationPurpose)

/** Which evaluation of a run. */
export interface EvaluationPurpose {
  /** What was trained last: `base`, `rft`, a reinforce stage, `rl` after the last one. The recipe's name where nothing else is evaluated. */
  name: string
  /** Inside the stage `name`, after this iteration; null between stages. */
  iteration: number | null
  /** One of `evaluate.suites`; null for the held-out one. */
  suite: string | null
}

/** Where in a run. */
export interface Coordinates {
  run: string
  /** The purpose as text: `rft`, `dapo-1`, `eval-base`. Part of the episode's seeds. */
  stage: string
  iteration: number
}

export interface EpisodeIdentity extends Coordinates {
  taskId: string
  /** Index within the group; replacements for `infra` episodes take the next free index. */
  index: number
}

/** One placement of an episode: who took it. The first attempt's word stays. */
export interface PlacementRecord {
  schema: 'longhaul.placement/1'
  episode: string
  /** Counted over all executions of the episode, from 1. */
  placement: number
  /** Execution of the owner that asked for it. */
  ownerRun: string
  /** Which of its placements that execution asked for, from 1; absent in records of earlier versions, where it is `placement`. */
  requested?: number
  hostId: string
  image: string
  placedAtMs: number
}

/** How the policy's part of an episode ended; the first one recorded stays. */
export interface DispositionRecord {
  schema: 'longhaul.disposition/1'
  episode: string
  disposition: Disposition
  turns: number
}

/** What was taken from the sandbox of a submitted episode; the first capture is the submission. */
export interface CaptureRecord {
  schema: 'longhaul.capture/1'
  episode: string
  mode: 'unstaged' | 'all'
  lostFiles: number
  failure: string | null
  sha256OfPatch: string
  bytes: number
}

/** Everything one episode needs; stored once at `episodes/<episode>/spec.json`. */
export interface EpisodeSpec extends EpisodeIdentity {
  schema: 'longhaul.episode/1'
  episode: string
  recipeSeed: number
  suiteHash: string
  policy: string
  scaffold: string
  /** Absent for `chatml`, as in records of versions that knew no other. */
  chatFormat?: ChatFormatName
  /** The scaffold's worked example is in the prompt (RFT data collection with a base policy). */
  demonstration: boolean
  sampling: SamplingOptions
  limits: EpisodeLimits
  capture: 'unstaged' | 'all'
}

/** Every decoding field, always explicit: an unset field would fall back to the server's own default. */
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

/** Why a reply held no runnable command. */
export type FormatError = 'cannot_extract_command' | 'multiple_commands'

/** What a chat endpoint said beside its text. */
export interface ChatAnswer {
  /** As the endpoint names it; null where it does not. */
  model: string | null
  /** Its own word for how the reply ended: `stop`, `length`, `content_filter`, … */
  ending: string
  /** Null where it counts nothing. */
  usage: TokenUsage | null
}

/** The sampled half of a turn. Durable before it touches the world; token ids are never derived from text again. */
export interface ActionRecord {
  schema: 'longhaul.action/1'
  episode: string
  turn: number
  /** Ids added to the context before this sample: turn 0 the whole first prompt, later the delta since the last sampled id. */
  promptDelta: number[]
  /** Sampled ids as the server returned them, end-of-turn token included when sampled. */
  ids: number[]
  /** Natural log, at the sampling temperature, one per id. */
  logprobs: number[]
  text: string
  finishReason: 'stop' | 'length'
  policy: string
  seed: number
  /** Present where a chat endpoint answered: there are no ids then, and the turn is never trained on. */
  chat?: ChatAnswer
  formatError: FormatError | null
  /** Null where the reply held no command. */
  command: string | null
  /** Random name of the turn in the sandbox journal, drawn here so that a retry finds the same entry. */
  token: string
  sampledAtMs: number
  sampleMs: number
}

/** Shell and tool state carried from turn to turn; part of the record so that a sandbox can be rebuilt from records. */
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

/** What an episode begins with: stored once, before the first sample. */
export interface EpisodeStart {
  schema: 'longhaul.episode-start/1'
  episode: string
  state: SandboxState
  /** First prompt as the policy reads it. */
  promptIds: number[]
  /** First prompt as it is trained on, where that differs (the demonstration is left out); else null. */
  trainingPromptIds: number[] | null
  /** Present where a chat endpoint plays: the first prompt as messages, instead of ids. */
  messages?: ChatMessage[]
  startedAtMs: number
}

/** The world's half of a turn. Durable before the next action is asked for. */
export interface ObservationRecord {
  schema: 'longhaul.observation/1'
  episode: string
  turn: number
  /** Text the policy sees, prompt line included. */
  text: string
  /** Null on a format error: nothing ran. */
  execution: ExecutionSummary | null
  state: SandboxState
  observedAtMs: number
}

/** What the world was after a turn, for the comparison when a lost sandbox is rebuilt. Not every turn has one. */
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
  /** Present where the turn used the network that the recipe allows, or tried more. */
  network?: NetworkUse
}

/** The outcome of grading one patch. */
export interface VerdictRecord {
  schema: 'longhaul.verdict/1'
  episode: string
  taskId: string
  kind: VerdictKind
  /** Where it is not graded or not plainly wrong: `empty-patch`, `patch-did-not-apply`, `tests-timed-out`, … */
  reason: string | null
  profile: string
  /** Empty patches take the gate's result; such a verdict started no container. */
  from: 'container' | 'gate'
  patchSha256: string
  failToPass: { passed: number; total: number }
  passToPass: { passed: number; total: number }
  gradeMs: number
  image: string
  /** Evidence of reward hacking in patch and log. It does not change the verdict. */
  signs: HackSign[]
  /** Whether every listed test passed, regardless of others: beside the verdict of `rebench-v2`, which asks for equal lists, and
   *  never in its place. */
  subset?: boolean
  /** The suite that the task is of, its data set and what pins that; absent in older records. */
  suite?: VerdictSuite
  /** What the verdict rests on; absent where no container ran, and in older records. */
  provenance?: GradingProvenance
  /** The second opinion; absent where no container ran, and in records of versions that had none. */
  audit?: AuditVerdict
}

export interface VerdictSuite {
  hash: string
  dataset: string
  /** Commit of the data set, SHA-256 of the file of rows; null where unknown. */
  revision: string | null
}

/** Everything that a verdict would have to be repeated with. */
export interface GradingProvenance {
  /** Imitated harness and its version, and the revision of the imitation. */
  upstream: string
  profileRevision: number
  rowHash: string
  /** As the row names it; `image` of the verdict has the digest. */
  imageReference: string
  machine: GradingMachine
  testTimeoutMs: number
  /** Of the tests' command as a whole; null where they were ended. */
  exitCode: number | null
  logSha256: string
  /** How the run differed from upstream's. */
  deviations: string[]
}

/** Tests of a patch were over their limit, or ended their own grading, for the first time; the second time is a verdict. */
export interface GradingTimeOutRecord {
  schema: 'longhaul.grading-time-out/1'
  episode: string
  attempt: number
  hostId: string
  gradeMs: number
  atMs: number
}

/** One attempt at grading that infrastructure kept from a verdict. */
export interface GradingAttemptRecord {
  schema: 'longhaul.grading-attempt/1'
  episode: string
  attempt: number
  hostId: string
  failure: string
  message: string
  atMs: number
}

/** The last record of an episode: everything the ledger and the statistics read. */
export interface EpisodeRecord extends EpisodeIdentity {
  schema: 'longhaul.episode-result/1'
  episode: string
  policy: string
  disposition: Disposition
  /** Failure code where the disposition is `infra`, and where the policy ended its own sandbox (`agent-gave-up`). */
  failure: string | null
  verdict: VerdictKind | null
  verdictReason: string | null
  /** The flag beside the disposition: rewards treat the episode as failed, with any verdict. */
  suspectedHack: boolean
  /** Signs in patch, log and commands. */
  signs: HackSign[]
  /** The second opinion on the verdict; absent where nothing was run, and in older records. */
  audit?: Omit<AuditVerdict, 'auditMs'>
  /** Number of actions, format errors included: |τ| of the paper. */
  turns: number
  formatErrorTurns: number
  /** Null where a chat endpoint did not count. */
  sampledTokens: number | null
  contextTokens: number | null
  /** Over all samples, one that did not fit any more too. Null where an endpoint did not count; absent in older records. */
  usage?: TokenUsage | null
  patchBytes: number
}
