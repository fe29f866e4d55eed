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
import { firstMessage, formatErrorText, observationText } from '../../src/scaffold/observation.ts'
import { parseReply } from '../../src/scaffold/parse-reply.ts'
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
}

export interface Demonstration {
  task: string
  segments: Segment[]
  turns: number
  /** The last edit was the right one and the work was submitted. */
  solved: boolean
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
  const { host, sandbox, profile, task, noise, random, signal } = input
  const { row, composed } = task
  let state = await host.initialState(sandbox, signal)
  let observation = firstMessage({ profile, state, repoDir: REPO_DIR, statement: row.problem_statement })
  let stage: SolverStage = 'start'
  let hasRightEdit = false
  let after: TurnMark | null = null
  const prompt = renderFirstPrompt({ format: chatml, systemPrompt: profile.systemPrompt, firstMessage: observation })
  const segments: Segment[] = [context(prompt)]

  for (let turn = 0; turn < MAX_TURNS && !state.submitted; turn += 1) {
    if (turn > 0) segments.push(context(renderDelta({ format: chatml, endedTurn: true, observation })))
    const { windowLines } = profile.tools
    const view = { task: composed, stage, observation, state, repoDir: REPO_DIR, windowLines, noise, random }
    const move = nextMove(view)
    stage = move.next
    const { command, formatError } = parseReply(move.reply)
    segments.push({ text: move.reply + chatml.endOfTurn, isAction: true, formatError: formatError !== null })
    if (formatError !== null) {
      observation = formatErrorText({ profile, state, repoDir: REPO_DIR, error: formatError })
      continue
    }
    if (command.startsWith('edit ')) hasRightEdit = isRightEdit(composed, move.reply)
    const request: TurnRequest = { ...turnRequest(profile, row.instance_id, turn, command), after }
    const result = await host.runTurn(sandbox, request, signal)
    after = { turn, token: request.token }
    state = result.state
    observation = observationText({ profile, repoDir: REPO_DIR, result, timeoutMs: COMMAND_TIMEOUT_MS })
  }
  const turns = segments.filter((segment) => segment.isAction).length
  return { task: row.instance_id, segments, turns, solved: hasRightEdit && state.submitted }
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
