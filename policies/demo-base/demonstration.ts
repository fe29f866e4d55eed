import type { SandboxState } from '../../src/contracts/episodes.types.ts'
import type { SweRebenchRow } from '../../src/contracts/tasks.types.ts'
import type { SynthesizedTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import type { Random } from '../../src/adapters/datasets/synthetic/compose.ts'
import type {
  SandboxHandle,
  SandboxHost,
  TurnMark,
  TurnRequest,
  ScaffoldProfile,
} from '../../src/contracts/sandbox.types.ts'
import { chatml, renderDelta, renderFirstPrompt } from '../../src/scaffold/render.ts'
import { firstMessage, formatErrorText, observationText, parseReply } from '../../src/scaffold/observation.ts'
import type { Noise } from './noise.ts'
import { isRightEdit, nextMove, type SolverStage } from './solver.ts'

/** The demo's turn limit: a demonstration that has not submitted by then ends as such an episode would. */
const MAX_TURNS = 6
const COMMAND_TIMEOUT_MS = 30_000
const REPO_DIR = '/testbed'

/** A piece of the episode's text; pieces are tokenised one by one, as prompt and deltas are in a run. */
export interface Segment {
  text: string
  isAction: boolean
  formatError: boolean
  /** A wrong turn on purpose: played, and not learned. */
  isMistake?: boolean
}

export interface Demonstration {
  task: string
  segments: Segment[]
  turns: number
  /** The work is right and was submitted. */
  solved: boolean
  /** Of the family `half-renamed`: roots of its names that may be replaced, and those that may not. */
  roots?: string[]
  kept?: string[]
}

export interface DemonstrateInput {
  host: SandboxHost
  sandbox: SandboxHandle
  profile: ScaffoldProfile
  task: SynthesizedTask
  noise: Noise
  random: Random
  signal: AbortSignal
}

/** Plays one episode of the scripted solver with the product's texts, rendering, runner and tools. */
export async function demonstrate(input: DemonstrateInput): Promise<Demonstration> {
  const { profile, task, noise, random } = input
  const { windowLines } = profile.tools
  let stage: SolverStage = 'start'
  let hasRightEdit = false
  const played = await playScript({
    ...input,
    row: task.row,
    maxTurns: MAX_TURNS,
    move: ({ observation, state }) => {
      const view = { task: task.composed, stage, observation, state, repoDir: REPO_DIR, windowLines, noise, random }
      const move = nextMove(view)
      stage = move.next
      const { command } = parseReply(move.reply)
      if (command?.startsWith('edit ')) hasRightEdit = isRightEdit(task.composed, move.reply)
      return { reply: move.reply }
    },
  })
  const { segments, turns, submitted } = played
  return { task: task.row.instance_id, segments, turns, solved: hasRightEdit && submitted }
}

/** What a script sees before its turn. */
export interface ScriptView {
  observation: string
  state: SandboxState
}

export interface PlayScriptInput {
  host: SandboxHost
  sandbox: SandboxHandle
  profile: ScaffoldProfile
  row: Pick<SweRebenchRow, 'instance_id' | 'problem_statement'>
  maxTurns: number
  move(view: ScriptView): { reply: string; isMistake?: boolean }
  signal: AbortSignal
}

/** Plays the replies of a script as an episode would be played. */
export async function playScript(
  input: PlayScriptInput,
): Promise<{ segments: Segment[]; turns: number; submitted: boolean; after: TurnMark | null }> {
  const { host, sandbox, profile, row, maxTurns, move, signal } = input
  let state = await host.initialState(sandbox, signal)
  let observation = firstMessage({ profile, state, repoDir: REPO_DIR, statement: row.problem_statement })
  let after: TurnMark | null = null
  const prompt = renderFirstPrompt({ format: chatml, systemPrompt: profile.systemPrompt, firstMessage: observation })
  const segments: Segment[] = [context(prompt)]

  let turn = 0
  for (; turn < maxTurns && !state.submitted; turn += 1) {
    if (turn > 0) segments.push(context(renderDelta({ format: chatml, endedTurn: true, observation })))
    const { reply, isMistake } = move({ observation, state })
    const { command, formatError } = parseReply(reply)
    const action = { text: reply + chatml.endOfTurn, isAction: true, formatError: formatError !== null }
    segments.push(isMistake === true ? { ...action, isMistake } : action)
    if (formatError !== null) {
      observation = formatErrorText({ profile, state, repoDir: REPO_DIR, error: formatError })
      continue
    }
    const request: TurnRequest = { ...turnRequest(profile, row.instance_id, turn, command), after }
    const result = await host.runTurn(sandbox, request, signal)
    after = { turn, token: request.token }
    state = result.state
    observation = observationText({ profile, repoDir: REPO_DIR, result, timeoutMs: COMMAND_TIMEOUT_MS })
  }
  return { segments, turns: turn, submitted: state.submitted, after }
}

function context(text: string): Segment {
  return { text, isAction: false, formatError: false }
}

function turnRequest(profile: ScaffoldProfile, taskId: string, turn: number, command: string) {
  return {
    turn,
    fence: 1,
    token: `${taskId}-${turn}`.replaceAll(/[^A-Za-z0-9]/g, ''),
    command,
    timeoutMs: COMMAND_TIMEOUT_MS,
    maxOutputBytes: profile.observationChars * 4,
  }
}
