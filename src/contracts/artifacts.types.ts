import type { PolicyRef } from './policy.types.ts'

/** A stored thing, addressed by key and proven by hash. Small enough for a Temporal history. */
export interface ArtifactRef {
  key: string
  sha256: string
  bytes: number
}

export interface ListPageInput {
  prefix: string
  /** Keys after this one, which need not exist; from the start where it is left out. */
  after?: string
  /** Keys of a page. @default 1,000, which is the most that S3 gives */
  limit?: number
}

export interface ListPage {
  /** In order. */
  keys: string[]
  /** `after` of the next page; null on the last one. */
  next: string | null
}

/**
 * Content: records, batches, reports. Keys name identity without attempt, so a repetition finds what is there.
 * `put` is put-if-absent: equal bytes are acknowledged, other bytes reject with `Artifact.Conflict`. A key shows all of its bytes
 * or is absent, what was acknowledged is durable, and SHA-256 is checked on read (`Artifact.Corrupt`). Every store passes
 * `test/support/artifacts/store-contract.ts`.
 */
export interface ArtifactStore {
  put(key: string, bytes: Uint8Array): Promise<ArtifactRef>
  get(ref: ArtifactRef): Promise<Uint8Array>
  /** Reads by key alone; null when absent. For content whose hash is not known to the caller. */
  read(key: string): Promise<Uint8Array | null>
  /** A JSON object with its own `sha256` field; put-if-absent like `put`. */
  putRecord<T extends object>(key: string, record: T): Promise<ArtifactRef>
  /** Put-if-absent where the first writer wins: returns the stored record, ours or theirs. */
  claimRecord<T extends object>(key: string, record: T): Promise<{ record: T; won: boolean }>
  /** Verifies the `sha256` field; null when absent. */
  readRecord<T extends object>(key: string): Promise<T | null>
  /** Keys below a prefix, sorted. */
  list(prefix: string): Promise<string[]>
  /** The same in pages, for prefixes with more keys than a process should hold. */
  listPage(input: ListPageInput): Promise<ListPage>
  /** Names of the folders directly below `folder` (`runs/`), sorted, whatever lies deeper. None where there is no such folder. */
  folders(folder: string): Promise<string[]>
  /** Removes every key below a folder (`runs/a/`), for retention: content is never changed. @returns how many keys it removed */
  removeFolder(folder: string): Promise<number>
  /** Where a key is, for people: a path or an address. */
  locate(key: string): string
  /**
   * Path of a key on this machine, for programs that read and write files themselves (trainer, policy server). A bucket has the same
   * layout there, with what `weights` brought and what these programs made.
   */
  path(key: string): string
  /** Address of a key, as records have it. */
  uri(key: string): string
  readonly weights: WeightStore
}

/** What weights are kept as: the policy is sampled from, the checkpoint is trained on. */
export type WeightsPart = 'policy' | 'checkpoint'

export interface WeightsFolder {
  key: string
  files: readonly string[]
}

export interface UseWeightsInput {
  policy: PolicyRef
  part: WeightsPart
  /** Folders of the store that are needed beside it, such as a batch, with the names of their files. */
  folders?: readonly WeightsFolder[]
  /** For how long after the work another program, such as a policy server, may still read the directory. @default 0 */
  afterMs?: number
  signal?: AbortSignal
}

/**
 * Policies and checkpoints: directories that the trainer and the policy servers read and write on their own machine. In a directory
 * they lie where these programs write them. In a bucket they are kept when they are whole and brought when they are used.
 */
export interface WeightStore {
  /** The same policy with the paths of this machine for addresses. Says nothing about whether they are there: `use` does. */
  local(policy: PolicyRef): PolicyRef
  /** One small file of a policy, such as its tokenizer, wherever it is; null where there is none. */
  readFile(input: { policy: PolicyRef; part: WeightsPart; name: string }): Promise<Uint8Array | null>
  /** What was kept under a version, by whichever host was first; null where nothing is, and where nothing needs to be kept. */
  kept(version: string): Promise<PolicyRef | null>
  /** Keeps what lies at the paths of a local policy. @returns what is kept from then on: another's, where that was first */
  keep(input: { policy: PolicyRef; signal?: AbortSignal }): Promise<PolicyRef>
  /** Does work while the files are on this machine, whole and checked. */
  use<T>(input: UseWeightsInput, work: () => Promise<T>): Promise<T>
  /** Puts one file of the store at its path. */
  bringFile(ref: ArtifactRef): Promise<void>
  /** @throws LonghaulError `Config.Invalid` where a program on another machine cannot see the paths of this one */
  requireSeenBy(program: string): void
}
