import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient, PolicyRef, PolicyVersion } from '../../contracts/policy.types.ts'
import {
  type Canary,
  type CanaryVerdict,
  judgeCanary,
  judgeWindow,
  parseCanary,
  type WindowFigures,
} from './canary-rules.ts'

export const CANARY_FILE = 'canary.safetensors'

export interface VerifyCanaryInput {
  client: Pick<PolicyClient, 'score'>
  policy: PolicyRef
  /** Largest accepted median difference of log-probabilities between server and trainer: about 1e-4 in fp32, 2e-2 in bf16 on a GPU. */
  tolerance: number
  /** Maximum number of canary rows to score. The file holds several times the required positions. @default 16 */
  maxRows?: number
  signal: AbortSignal
}

/**
 * Scores the canary on the server and compares the log-probabilities with the trainer's, because a status of 200 does not prove which
 * weights answered. A base policy has no canary, and the result says so.
 * @throws LonghaulError `Model.CanaryMismatch` for wrong or stale weights, `Artifact.Corrupt` for a broken file, `Model.*`
 */
export async function verifyCanary(input: VerifyCanaryInput): Promise<CanaryVerdict | { kind: 'no-canary' }> {
  const { client, policy, tolerance, maxRows = 16, signal } = input
  const canary = await readCanary(policy)
  if (canary === null) return { kind: 'no-canary' }
  return verifyCanaryRows({ client, policy: policy.version, canary, tolerance, maxRows, signal })
}

/** The same for a canary in memory. @throws LonghaulError `Model.CanaryMismatch`, `Model.*` */
export async function verifyCanaryRows({
  client,
  policy,
  canary,
  tolerance,
  maxRows = 16,
  signal,
}: Omit<VerifyCanaryInput, 'policy'> & { policy: PolicyVersion; canary: Canary }): Promise<CanaryVerdict> {
  const served: number[] = []
  const rows = canary.rows.filter(({ positions }) => positions.length > 0).slice(0, maxRows)
  for (const { ids, positions } of rows) {
    const scores = await client.score({ policy, ids }, signal)
    // Scores begin at position 1, because the first token has no prefix.
    served.push(...positions.map(({ index }) => scores[index - 1] ?? Number.NaN))
  }
  const verdict = judgeCanary({ served, positions: rows.flatMap(({ positions }) => positions), tolerance })
  if (verdict.kind === 'verified' || verdict.kind === 'indistinguishable') return verdict
  throw new LonghaulError({
    code: 'Model.CanaryMismatch',
    message: MISMATCHES[verdict.kind],
    details: {
      policy,
      medianDifference: verdict.medianDifference,
      projection: verdict.projection,
      tolerance,
    },
  })
}

const MISMATCHES = {
  stale: 'Expected the server to answer with the new weights, but its answers are those of the old ones',
  partial:
    'Expected the server to answer with the new weights, but its answers lie between those of the old and the new ones: some weights were not loaded',
  wrong: 'Expected the server’s log-probabilities to be those of the trainer',
} as const

/** Looked at of a tokenizer's special tokens, from the first and from the last on: some have hundreds that are reserved. */
const SPECIAL_TOKENS = 4

interface AddedToken {
  id: number
  content: string
  special: boolean
}

/**
 * Prompts are texts that the server turns into ids. One that has another tokenizer beside the right weights passes every other
 * check, whose prompts are ids or any text: special tokens, which no two families have alike, tell.
 * @throws LonghaulError `Model.CanaryMismatch`, `Model.*`
 */
export async function verifyTokenizer({
  client,
  policy,
  signal,
}: {
  client: Pick<PolicyClient, 'tokenize'>
  policy: PolicyRef
  signal: AbortSignal
}): Promise<void> {
  const file = await readUnlessAbsent(join(fileURLToPath(policy.uri), 'tokenizer.json'))
  if (file === null) return
  const { added_tokens: added = [] } = JSON.parse(Buffer.from(file).toString('utf8')) as { added_tokens?: AddedToken[] }
  const special = added.filter((token) => token.special)
  const chosen = new Set([...special.slice(0, SPECIAL_TOKENS), ...special.slice(-SPECIAL_TOKENS)])
  for (const { id, content } of chosen) {
    const ids = await client.tokenize({ policy: policy.version, text: content }, signal)
    if (ids.length === 1 && ids[0] === id) continue
    throw new LonghaulError({
      code: 'Model.CanaryMismatch',
      message: `Expected the server to have the tokenizer of the policy’s directory, whose ${content} is ${id}; it answers ${ids.slice(0, 8).join(', ')}. ${START}`,
      details: { policy: policy.version },
    })
  }
}

export interface VerifyWindowInput {
  client: Pick<PolicyClient, 'score'>
  policy: PolicyVersion
  /** `window.safetensors` of a policy with a rope. */
  path: string
  tolerance: number
  signal: AbortSignal
}

/**
 * Scores tokens beyond the positions that the model was trained on, and compares the log-probabilities with the trainer's. A server
 * that reads another config.json, or an engine without support for the rope, behaves as another model from the first token on.
 * @throws LonghaulError `Model.CanaryMismatch` for a server that ignores the rope, has another one, or accepts too short rows;
 * `Artifact.Corrupt`, `Model.*`
 */
export async function verifyWindow(input: VerifyWindowInput): Promise<WindowFigures> {
  const { client, policy, path, tolerance, signal } = input
  const row = parseAt(await readFile(path), path).rows[0]
  if (row === undefined) throw corrupt(path, new Error('no row'))
  const scores = await scoreWhole({ client, policy, ids: row.ids, signal })
  const served = row.positions.map(({ index }) => scores[index - 1] ?? Number.NaN)
  const { kind, ...figures } = judgeWindow({ served, positions: row.positions, tolerance })
  if (kind === 'read') return figures
  const first = row.positions[0]?.index ?? 0
  throw new LonghaulError({
    code: 'Model.CanaryMismatch',
    message:
      kind === 'ignored'
        ? `Expected the server to read the rope of the policy’s config.json; from position ${first} on its answers are those of the same weights without it. ${START}`
        : `Expected the server’s log-probabilities from position ${first} on to be those of the trainer; it reads another rope, or other weights. ${START}`,
    details: { policy, ...figures, tolerance },
  })
}

const START = 'Start it with the command that `longhaul policy-server command` prints'

async function scoreWhole({
  client,
  policy,
  ids,
  signal,
}: Pick<VerifyWindowInput, 'client' | 'policy' | 'signal'> & { ids: number[] }): Promise<number[]> {
  try {
    return await client.score({ policy, ids }, signal)
  } catch (cause) {
    if (!isLonghaulError(cause) || cause.code !== 'Model.ContextOverflow') throw cause
    throw new LonghaulError({
      code: 'Model.CanaryMismatch',
      message: `Expected the server to accept ${ids.length + 1} tokens, which the policy’s rope covers, but it accepts fewer: ${cause.message}. ${START} for the recipe’s longest context`,
      details: { policy, ids: ids.length },
      cause,
    })
  }
}

async function readCanary({ uri }: PolicyRef): Promise<Canary | null> {
  const path = join(fileURLToPath(uri), CANARY_FILE)
  const file = await readUnlessAbsent(path)
  return file === null ? null : parseAt(file, path)
}

function readUnlessAbsent(path: string): Promise<Uint8Array | null> {
  return readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
}

function parseAt(file: Uint8Array, path: string): Canary {
  try {
    return parseCanary(file)
  } catch (cause) {
    throw corrupt(path, cause)
  }
}

function corrupt(path: string, cause: unknown): LonghaulError {
  return new LonghaulError({ code: 'Artifact.Corrupt', message: 'Expected a canary file', details: { path }, cause })
}
