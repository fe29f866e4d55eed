import type { ChatAnswer, SamplingOptions } from './episodes.types.ts'

/** Never reused: `v000000-<first 8 of the manifest hash>` for a base, `v000123-<first 8 of the job key>` for a trained one. */
export type PolicyVersion = string

/** A policy as runs refer to it. */
export interface PolicyRef {
  version: PolicyVersion
  /** URI of the Hugging Face model directory. */
  uri: string
  /** SHA-256 of its `MANIFEST.json`. */
  manifestSha256: string
  /** Optimizer steps since the base; 0 for a base. */
  globalStep: number
  /** Committed checkpoint (weights and optimizer) to continue from; null for a base. */
  checkpointUri: string | null
  checkpointSha256: string | null
}

export interface SampleRequest {
  policy: PolicyVersion
  promptIds: number[]
  maxTokens: number
  seed: number
  sampling: SamplingOptions
  stopTokenIds: number[]
  /** Sent as X-Session-ID, so that routers keep an episode on one server. */
  session: string
}

export interface SampleResult {
  ids: number[]
  logprobs: number[]
  /** Text of `ids` without the stop token. */
  text: string
  finishReason: 'stop' | 'length'
  /** Version that the server reports for this answer. */
  policy: PolicyVersion
  /** Duration of the request that was answered, without failed tries and the waits before them. @default unknown */
  tookMs?: number
}

/** Token-in/token-out access to served policies (vLLM's /v1/completions fields). Rejects with `Model.*` codes. */
export interface PolicyClient {
  sample(request: SampleRequest, signal: AbortSignal): Promise<SampleResult>
  /** Adds no special tokens. Text that spells a special token becomes that token, which the renderer prevents. */
  tokenize(request: { policy: PolicyVersion; text: string }, signal: AbortSignal): Promise<number[]>
  /** Loads a policy directory under its version. Idempotent. If the server is full, `Model.Busy` names the holders. */
  load(request: { policy: PolicyRef; holder: string; leaseMs: number }, signal: AbortSignal): Promise<void>
  /** Log-probabilities of `ids` under the served policy, positions 1…n−1; for canaries. */
  score(request: { policy: PolicyVersion; ids: number[] }, signal: AbortSignal): Promise<number[]>
  /** Releases every lease of the holder. */
  release(request: { holder: string }): Promise<void>
  /** Versions that the server serves now. */
  served(signal: AbortSignal): Promise<PolicyVersion[]>
}

/** One message of a conversation in the form of chat endpoints. */
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant'
  content: string
}

/** Token counts as reported by the server. */
export interface TokenUsage {
  /** All prompt tokens, including cached ones. */
  promptTokens: number
  /** Prompt tokens that came from a cache; null if the server does not report them. */
  cachedTokens: number | null
  /** All sampled tokens, including hidden reasoning. */
  completionTokens: number
}

export interface ChatRequest {
  messages: ChatMessage[]
  maxTokens: number
  seed: number
  sampling: SamplingOptions
  /** Sent as X-Session-ID, as with token servers. */
  session: string
}

export interface ChatReply {
  text: string
  /** What the endpoint reports besides the text. */
  answer: ChatAnswer
  /** As in `SampleResult`. */
  tookMs?: number
}

/** Text in, text out. Its replies can be graded but never trained on. Rejects with `Model.*` codes. */
export interface ChatClient {
  reply(request: ChatRequest, signal: AbortSignal): Promise<ChatReply>
  /** Checks that the endpoint answers and accepts the key, as far as possible without sampling. */
  check(signal: AbortSignal): Promise<void>
}

/** One server of a pool. */
export interface PooledServer {
  url: string
  client: PolicyClient
}

/** Servers with the same policies: one client for all of them, and one for each. */
export interface PolicyPool extends PolicyClient {
  servers: readonly PooledServer[]
}

/** Engines that Longhaul launched for a run. Their host and addresses stay the same until the run is removed. */
export interface EnginesRecord {
  schema: 'longhaul.engines/1'
  /** The host whose trainer worker starts and ends them. */
  host: string
  /** One address for each replica. */
  urls: string[]
}

/** `chatml`: Qwen and the demo's policy; `llama3`: Llama 3 and later. */
export type ChatFormatName = 'chatml' | 'llama3'

/** How a policy writes a conversation. Besides the model directory, only this differs between model families. */
export interface ChatFormat {
  name: ChatFormatName
  /** Before the first message. */
  start: string
  message(role: 'system' | 'user', text: string): string
  /** Header after which the policy samples. */
  assistantHeader: string
  /** Token that the policy samples to end its turn. */
  endOfTurn: string
  /** Text between the end of a turn and the next message. */
  afterTurn: string
}
