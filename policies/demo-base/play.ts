import { randomBytes } from 'node:crypto'
import type { SynthesizedTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import type { PolicyClient } from '../../src/contracts/policy.types.ts'
import type {
  SandboxHandle,
  SandboxHost,
  TurnMark,
  TurnRequest,
  ScaffoldProfile,
} from '../../src/contracts/sandbox.types.ts'
import { chatml, renderDelta, renderFirstPrompt } from '../../src/scaffold/render.ts'
import { firstMessage, formatErrorText, observationText, parseReply } from '../../src/scaffold/observation.ts'

export interface PlayInput {
  host: SandboxHost
  sandbox: SandboxHandle
  client: PolicyClient
  policy: string
  profile: ScaffoldProfile
  task: SynthesizedTask
  stopTokenIds: number[]
  /** Seed of turn t is this plus t. */
  seed: number
  signal: AbortSignal
}

export interface PlayedEpisode {
  patch: Uint8Array
  submitted: boolean
  turns: number
  formatErrors: number
  tokens: number
  text: string
}

const MAX_TURNS = 6
const MAX_TOKENS_PER_TURN = 64
const COMMAND_TIMEOUT_MS = 30_000
const REPO_DIR = '/testbed'

/** One episode without records: enough to measure a base policy, with the product's texts, tools and sampler. */
export async function play(input: PlayInput): Promise<PlayedEpisode> {
  const { host, sandbox, client, policy, profile, task, signal } = input
  let state = await host.initialState(sandbox, signal)
  const statement = task.row.problem_statement
  const prompt = renderFirstPrompt({
    format: chatml,
    systemPrompt: profile.systemPrompt,
    firstMessage: firstMessage({ profile, state, repoDir: REPO_DIR, statement }),
  })
  let text = prompt
  let ids = await client.tokenize({ policy, text: prompt }, signal)
  let turns = 0
  let formatErrors = 0
  let after: TurnMark | null = null
  for (; turns < MAX_TURNS && !state.submitted; turns += 1) {
    const sample = await client.sample(
      {
        policy,
        promptIds: ids,
        maxTokens: MAX_TOKENS_PER_TURN,
        seed: input.seed + turns,
        sampling: NEUTRAL_SAMPLING,
        stopTokenIds: input.stopTokenIds,
        session: task.row.instance_id,
      },
      signal,
    )
    const { command, formatError } = parseReply(sample.text)
    let observation: string
    if (formatError === null) {
      const request: TurnRequest = { ...turnRequest(profile, turns, command), after }
      const result = await host.runTurn(sandbox, request, signal)
      after = { turn: turns, token: request.token }
      state = result.state
      observation = observationText({ profile, repoDir: REPO_DIR, result, timeoutMs: COMMAND_TIMEOUT_MS })
    } else {
      formatErrors += 1
      observation = formatErrorText({ profile, state, repoDir: REPO_DIR, error: formatError })
    }
    const delta = renderDelta({ format: chatml, endedTurn: sample.finishReason === 'stop', observation })
    text += sample.text + delta
    ids = [...ids, ...sample.ids, ...(await client.tokenize({ policy, text: delta }, signal))]
  }
  const { patch } = await host.capture(sandbox, { mode: 'unstaged', after }, signal)
  return { patch, submitted: state.submitted, turns, formatErrors, tokens: ids.length, text }
}

function turnRequest(profile: ScaffoldProfile, turn: number, command: string) {
  const token = randomBytes(8).toString('hex')
  const maxOutputBytes = profile.observationChars * 4
  return { turn, fence: 1, token, command, timeoutMs: COMMAND_TIMEOUT_MS, maxOutputBytes }
}
