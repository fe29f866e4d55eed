/** A stored thing, addressed by key and proven by hash. Small enough for a Temporal history. */
export interface ArtifactRef {
  key: string
  sha256: string
  bytes: number
}

/**
 * Content: records, batches, reports. Keys name identity without attempt, so a repetition finds what is there.
 * `put` is put-if-absent: equal bytes are acknowledged, other bytes reject with `Artifact.Conflict`. Written atomically
 * (temporary file, fsync, link) and checked by SHA-256 on read (`Artifact.Corrupt`).
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
  /** Local path of a key, for programs that read and write files themselves (trainer, policy server). */
  path(key: string): string
  uri(key: string): string
}
