import type { ActionRecord, EpisodeRecord } from '../../../contracts/episodes.types.ts'
import { LonghaulError } from '../../../contracts/errors.ts'

/** One episode as the trainer sees it: the sampled token ids in one growing row. Arrays cover all tokens. */
export interface Trajectory {
  record: EpisodeRecord
  ids: Int32Array
  /** 1 means trained on. Always 0 at the first token, which nothing predicts. */
  lossMask: Uint8Array
  /** Natural log at the sampling temperature; 0 for tokens that were not sampled. */
  logprobs: Float32Array
  /** Policy version of each sampled token, null for context, as runs of equal versions to save memory. */
  versions: VersionRun[]
  /** Position of each turn's samples in the row. */
  turns: TurnSpan[]
  sampledTokens: number
  /** Number of sampled tokens that are not trained on: format-error turns of a fine-tuning batch, and tokens without a finite
   *  log-probability. */
  maskedTokens: number
  lossTokens: number
  droppedNonfinite: number
  /** The ids were sampled after another first prompt, so the log-probabilities are not those of this row. */
  hasOtherPrompt: boolean
}

export interface VersionRun {
  policy: string | null
  tokens: number
}

export interface TurnSpan {
  start: number
  tokens: number
}

export interface AssembleTrajectoryInput {
  record: EpisodeRecord
  /** Every action of the episode, turn 0 first. */
  actions: readonly ActionRecord[]
  /** If false, a turn that broke the command format stays as context and gets no loss. */
  trainFormatErrors: boolean
  /** Replaces the first prompt, for example to leave out of training a demonstration that was shown while sampling. */
  firstPrompt?: readonly number[]
}

/** vLLM writes −9999 for −∞. */
const LOWEST_LOGPROB = -9000
const HIGHEST_LOGPROB = 1e-3

/**
 * Assembles a trajectory. Token ids come from the records and are never derived from text. The mask is derived from lengths and never
 * from ids, because a policy may sample a pad or end token as content.
 * @throws LonghaulError `Trainer.BatchRefused` if the records contradict each other
 */
export function assembleTrajectory({
  record,
  actions,
  trainFormatErrors,
  firstPrompt,
}: AssembleTrajectoryInput): Trajectory {
  checkActions(record, actions)
  const parts = actions.map((action) => ({
    ...action,
    prompt: action.turn === 0 && firstPrompt !== undefined ? firstPrompt : action.promptDelta,
  }))
  const tokens = parts.reduce((sum, { prompt, ids }) => sum + prompt.length + ids.length, 0)
  const ids = new Int32Array(tokens)
  const lossMask = new Uint8Array(tokens)
  const logprobs = new Float32Array(tokens)
  const versions: VersionRun[] = []
  const turns: TurnSpan[] = []
  let at = 0
  let sampledTokens = 0
  let droppedNonfinite = 0
  for (const part of parts) {
    ids.set(part.prompt, at)
    at += part.prompt.length
    turns.push({ start: at, tokens: part.ids.length })
    ids.set(part.ids, at)
    addRun(versions, null, part.prompt.length)
    addRun(versions, part.policy, part.ids.length)
    const trains = part.formatError === null || trainFormatErrors
    for (const logprob of part.logprobs) {
      if (isUsable(logprob)) {
        logprobs[at] = logprob
        lossMask[at] = trains ? 1 : 0
      } else droppedNonfinite += 1
      at += 1
    }
    sampledTokens += part.ids.length
  }
  const lossTokens = lossMask.reduce((sum, mask) => sum + mask, 0)
  const maskedTokens = sampledTokens - lossTokens
  const hasOtherPrompt = firstPrompt !== undefined
  return {
    record,
    ids,
    lossMask,
    logprobs,
    versions,
    turns,
    sampledTokens,
    maskedTokens,
    lossTokens,
    droppedNonfinite,
    hasOtherPrompt,
  }
}

/** Records hold null if the server sent NaN or an infinity, which JSON cannot represent. */
function isUsable(logprob: number | null): logprob is number {
  return logprob !== null && logprob > LOWEST_LOGPROB && logprob <= HIGHEST_LOGPROB
}

function addRun(runs: VersionRun[], policy: string | null, tokens: number): void {
  if (tokens > 0) runs.push({ policy, tokens })
}

function checkActions(record: EpisodeRecord, actions: readonly ActionRecord[]): void {
  const { episode, turns } = record
  if (actions.length !== turns) throw refuse('one action record a turn', { episode, turns, actions: actions.length })
  for (const [turn, action] of actions.entries()) {
    if (action.episode !== episode || action.turn !== turn) {
      throw refuse('the actions of one episode in turn order', {
        episode,
        turn,
        found: `${action.episode}#${action.turn}`,
      })
    }
    if (action.ids.length !== action.logprobs.length) {
      throw refuse('one log-probability per id', {
        episode,
        turn,
        ids: action.ids.length,
        logprobs: action.logprobs.length,
      })
    }
    // The first token of a row has no label position, so the first prompt must not be empty.
    if (turn === 0 && action.promptDelta.length === 0) throw refuse('a first prompt', { episode })
  }
}

function refuse(expected: string, details: Record<string, string | number>): LonghaulError {
  return new LonghaulError({ code: 'Trainer.BatchRefused', message: `Expected ${expected}`, details })
}
