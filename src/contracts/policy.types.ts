import type { ChatAnswer, SamplingOptions } from './episodes.types.ts'

/** Never reused: `v000000-<first 8 of the manifest hash>` for a base, `v000123-<first 8 of the job key>` for a trained one. */
export type PolicyVersion = string

/** A policy as runs refer to it. */
export interface PolicyRef {
  version: PolicyVersion
  /** Directory URI of the Hugging Face model directory. */
  uri: string
  /** SHA-256 of its `MANIFEST.json`. */
  manifestSha256: string
  /** Optimizer steps that made it; 0 for a base. */
  globalStep: number
  /** Committed checkpoint (weights + optimizer) to continue from; null for a base. */
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
  /** Version the server says it answered with. */
  policy: PolicyVersion
}

/** Token-in/token-out access to served policies (vLLM's /v1/completions fields). Rejects with `Model.*` codes. */
export interface PolicyClient {
  sample(request: SampleRequest, signal: AbortSignal): Promise<SampleResult>
  /** Never adds special tokens; text that spells a special token becomes that token (the renderer guards against it). */
  tokenize(request: { policy: PolicyVersion; text: string }, signal: AbortSignal): Promise<number[]>
  /** Loads a policy directory under its version; idempotent. `Model.Busy` names the holders when the server is full. */
  load(request: { policy: PolicyRef; holder: string; leaseMs: number }, signal: AbortSignal): Promise<void>
  /** Log-probabilities of `ids` under the served policy, positions 1…n−1; for canaries. */
  score(request: { policy: PolicyVersion; ids: number[] }, signal: AbortSignal): Promise<number[]>
  /** Gives up every lease of the holder. */
  release(request: { holder: string }): Promise<void>
  /** Versions served now. */
  served(signal: AbortSignal): Promise<PolicyVersion[]>
}

/** One message of a conversation, as chat endpoints take it. */
export interface ChatMessage {
  role: 'system' | 'user' | 'assistant'
  content: string
}

/** Tokens as the server of a policy counted them. */
export interface TokenUsage {
  /** Everything that was read, cached tokens too. */
  promptTokens: number
  /** Those of them that came from a cache; null where the server does not say. */
  cachedTokens: number | null
  /** Everything that was written, hidden reasoning too. */
  completionTokens: number
}

export interface ChatRequest {
  messages: ChatMessage[]
  maxTokens: number
  seed: number
  sampling: SamplingOptions
  /** Sent as X-Session-ID, as for servers of tokens. */
  session: string
}

export interface ChatReply {
  text: string
  /** What the endpoint says beside the text. */
  answer: ChatAnswer
}

/** Text in, text out: what it gives can be graded and never trained on. Rejects with `Model.*` codes. */
export interface ChatClient {
  reply(request: ChatRequest, signal: AbortSignal): Promise<ChatReply>
  /** The endpoint answers and takes the key, as far as that shows without a sample. */
  check(signal: AbortSignal): Promise<void>
}

/** One server of a pool. */
export interface PooledServer {
  url: string
  client: PolicyClient
}

/** Servers that serve the same policies, as one client and one by one. */
export interface PolicyPool extends PolicyClient {
  servers: readonly PooledServer[]
}

/** Engines that Longhaul launched for a run: they keep host and addresses for as long as the run is known. */
export interface EnginesRecord {
  schema: 'longhaul.engines/1'
  /** Whose trainer worker starts and ends them. */
  host: string
  /** By replica. */
  urls: string[]
}

/** `chatml`: Qwen and the demo's policy; `llama3`: Llama from 3 on. */
export type ChatFormatName = 'chatml' | 'llama3'

/** How a policy writes a conversation: the only thing besides the directory that differs between model families. */
export interface ChatFormat {
  name: ChatFormatName
  /** Before the first message. */
  start: string
  message(role: 'system' | 'user', text: string): string
  /** Header after which the policy samples. */
  assistantHeader: string
  /** What the policy samples to end its turn. */
  endOfTurn: string
  /** What follows the end of turn before the next message. */
  afterTurn: string
}
