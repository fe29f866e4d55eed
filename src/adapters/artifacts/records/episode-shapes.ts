import { AUDIT_REASONS, type AuditReason, type AuditVerdict } from '../../../contracts/audit.types.ts'
import {
  type ActionRecord,
  type CaptureRecord,
  type ChatAnswer,
  DISPOSITIONS,
  type DispositionRecord,
  type EpisodeLimits,
  type EpisodeRecord,
  type EpisodeSpec,
  type EpisodeStart,
  type ExecutionSummary,
  type GradingAttemptRecord,
  type GradingProvenance,
  type GradingTimeOutRecord,
  type ObservationRecord,
  type PlacementRecord,
  type SamplingOptions,
  type SandboxState,
  type TreeRecord,
  type VerdictRecord,
  type VerdictSuite,
} from '../../../contracts/episodes.types.ts'
import { HACK_SIGNS, type HackSign } from '../../../contracts/hack-signs.ts'
import type { ChatMessage, TokenUsage } from '../../../contracts/policy.types.ts'
import type { GradingMachine, NetworkUse } from '../../../contracts/sandbox.types.ts'
import {
  absentable,
  amount,
  count,
  flag,
  instantMs,
  int32,
  integer,
  listOf,
  logprobs,
  nullable,
  number,
  object,
  oneOf,
  ruled,
  size,
  text,
  tokenIds,
  type Misfit,
  type Shape,
} from './shape.ts'

const signs: Shape<HackSign[]> = listOf(oneOf(...(Object.keys(HACK_SIGNS) as HackSign[])))
export const disposition = oneOf(...DISPOSITIONS)
export const verdictKind = oneOf('resolved', 'unresolved', 'could-not-grade')
export const auditOutcome = oneOf('agrees', 'void', 'unsupported')
export const auditReasons: Shape<AuditReason[]> = listOf(oneOf(...(Object.keys(AUDIT_REASONS) as AuditReason[])))

const shortAudit = { outcome: auditOutcome, reasons: auditReasons, detail: nullable(text) }
export const audit = object<AuditVerdict>({ ...shortAudit, auditMs: amount })

export const chatFormat = oneOf('chatml', 'llama3')

export const sampling = object<SamplingOptions>({
  temperature: number,
  topP: number,
  topK: integer,
  minP: number,
  repetitionPenalty: number,
  presencePenalty: number,
  frequencyPenalty: number,
})

export const limits = object<EpisodeLimits>({
  maxTurns: size,
  contextTokens: count,
  maxTokensPerTurn: count,
  commandTimeoutMs: amount,
  episodeTimeoutMs: amount,
  turnsPerStep: size,
})

const usage = object<TokenUsage>({ promptTokens: count, cachedTokens: nullable(count), completionTokens: count })

const state = object<SandboxState>({
  cwd: text,
  environment: text,
  umask: text,
  openFile: nullable(text),
  windowTop: count,
  submitted: flag,
})

export const episodeSpec = object<EpisodeSpec>({
  schema: oneOf('longhaul.episode/1'),
  episode: text,
  run: text,
  stage: text,
  iteration: size,
  taskId: text,
  index: size,
  recipeSeed: number,
  suiteHash: text,
  policy: text,
  scaffold: text,
  chatFormat: absentable(chatFormat),
  demonstration: flag,
  sampling,
  limits,
  capture: oneOf('unstaged', 'all'),
})

export const episodeStart = object<EpisodeStart>({
  schema: oneOf('longhaul.episode-start/1'),
  episode: text,
  state,
  promptIds: tokenIds,
  trainingPromptIds: nullable(tokenIds),
  messages: absentable(listOf(object<ChatMessage>({ role: oneOf('system', 'user', 'assistant'), content: text }))),
  startedAtMs: instantMs,
})

export const action = ruled(
  object<ActionRecord>({
    schema: oneOf('longhaul.action/1'),
    episode: text,
    turn: size,
    promptDelta: tokenIds,
    ids: tokenIds,
    logprobs,
    text,
    finishReason: oneOf('stop', 'length'),
    policy: text,
    seed: number,
    chat: absentable(object<ChatAnswer>({ model: nullable(text), ending: text, usage: nullable(usage) })),
    formatError: nullable(oneOf('cannot_extract_command', 'multiple_commands')),
    command: nullable(text),
    token: text,
    sampledAtMs: instantMs,
    sampleMs: amount,
  }),
  ({ ids, logprobs: given }) =>
    ids.length === given.length
      ? null
      : { at: ['logprobs'], expected: `one for each of ${ids.length} ids`, got: String(given.length) },
)

export const observation = object<ObservationRecord>({
  schema: oneOf('longhaul.observation/1'),
  episode: text,
  turn: size,
  text,
  execution: nullable(
    object<ExecutionSummary>({
      exitCode: nullable(int32),
      reason: oneOf('exit', 'signal', 'timeout', 'output-limit', 'process-limit'),
      outputBytes: count,
      wallMs: amount,
      oomKilled: flag,
      network: absentable(
        object<NetworkUse>({ opened: count, refused: count, bytes: count, refusedHosts: listOf(text) }),
      ),
    }),
  ),
  state,
  observedAtMs: instantMs,
})

export const tree = object<TreeRecord>({
  schema: oneOf('longhaul.tree/1'),
  episode: text,
  turn: size,
  treeSha256: text,
})

export const placement = object<PlacementRecord>({
  schema: oneOf('longhaul.placement/1'),
  episode: text,
  placement: size,
  ownerRun: text,
  requested: absentable(size),
  hostId: text,
  image: text,
  placedAtMs: instantMs,
})

export const dispositionRecord = object<DispositionRecord>({
  schema: oneOf('longhaul.disposition/1'),
  episode: text,
  disposition,
  turns: size,
})

export const capture = object<CaptureRecord>({
  schema: oneOf('longhaul.capture/1'),
  episode: text,
  mode: oneOf('unstaged', 'all'),
  lostFiles: count,
  failure: nullable(text),
  sha256OfPatch: text,
  bytes: count,
})

interface Passes {
  passed: number
  total: number
}

const passes = ruled(object<Passes>({ passed: count, total: count }), ({ passed, total }): Misfit | null =>
  passed <= total ? null : { at: ['passed'], expected: `at most ${total}, the total`, got: String(passed) },
)

export const verdict = object<VerdictRecord>({
  schema: oneOf('longhaul.verdict/1'),
  episode: text,
  taskId: text,
  kind: verdictKind,
  reason: nullable(text),
  profile: text,
  from: oneOf('container', 'gate'),
  patchSha256: text,
  failToPass: passes,
  passToPass: passes,
  gradeMs: amount,
  image: text,
  signs,
  subset: absentable(flag),
  suite: absentable(object<VerdictSuite>({ hash: text, dataset: text, revision: nullable(text) })),
  provenance: absentable(
    object<GradingProvenance>({
      upstream: text,
      profileRevision: number,
      rowHash: text,
      imageReference: text,
      machine: object<GradingMachine>({
        engine: text,
        cgroupVersion: nullable(oneOf(1, 2)),
        cpuset: text,
        memoryMiB: amount,
        startedAtMs: instantMs,
        endedAtMs: instantMs,
      }),
      testTimeoutMs: amount,
      exitCode: nullable(int32),
      logSha256: text,
      deviations: listOf(text),
    }),
  ),
  audit: absentable(audit),
})

export const gradingTimeOut = object<GradingTimeOutRecord>({
  schema: oneOf('longhaul.grading-time-out/1'),
  episode: text,
  attempt: size,
  hostId: text,
  gradeMs: amount,
  atMs: instantMs,
})

export const gradingAttempt = object<GradingAttemptRecord>({
  schema: oneOf('longhaul.grading-attempt/1'),
  episode: text,
  attempt: size,
  hostId: text,
  failure: text,
  message: text,
  atMs: instantMs,
})

export const episodeResult = ruled(
  object<EpisodeRecord>({
    schema: oneOf('longhaul.episode-result/1'),
    episode: text,
    run: text,
    stage: text,
    iteration: size,
    taskId: text,
    index: size,
    policy: text,
    disposition,
    failure: nullable(text),
    verdict: nullable(verdictKind),
    verdictReason: nullable(text),
    suspectedHack: flag,
    signs: absentable(signs),
    audit: absentable(object<Omit<AuditVerdict, 'auditMs'>>(shortAudit)),
    turns: size,
    formatErrorTurns: size,
    sampledTokens: nullable(count),
    contextTokens: nullable(count),
    usage: absentable(nullable(usage)),
    patchBytes: count,
  }),
  ({ turns, formatErrorTurns }) =>
    formatErrorTurns <= turns
      ? null
      : { at: ['formatErrorTurns'], expected: `at most ${turns}, the turns`, got: String(formatErrorTurns) },
)
