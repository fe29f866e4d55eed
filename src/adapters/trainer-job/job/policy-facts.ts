import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import type { WeightStore } from '../../../contracts/artifacts.types.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import { type Positions, readPositions } from './rope-statement.ts'
import { directoryWeights } from '../../artifacts/directory-store.ts'
import { sha256Hex } from '../../../platform/hash.ts'

/** What a batch must state about the model that sampled it. */
export interface PolicyFacts {
  /** SHA-256 of `tokenizer.json`. */
  tokenizerSha256: string
  vocabSize: number
  positions: Positions
}

/** Written by `longhaul models import`. Records where the policy came from and what the import found in it. */
const IMPORT_RECORD = 'longhaul.json'

/** The store that holds the policy's files. */
type Files = Pick<WeightStore, 'readFile'>

/** Returns the chat format that the model's import detected; null if the directory was not imported or its record has another format. */
export async function readImportedChatFormat(
  policy: PolicyRef,
  files: Files = directoryWeights,
): Promise<string | null> {
  const record = await files.readFile({ policy, part: 'policy', name: IMPORT_RECORD })
  if (record === null) return null
  try {
    const { chat_format: found } = JSON.parse(Buffer.from(record).toString('utf8')) as { chat_format?: unknown }
    return typeof found === 'string' ? found : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** @throws LonghaulError `Artifact.Corrupt` if the directory is not a Hugging Face model directory */
export async function readPolicyFacts(policy: PolicyRef, files: Files = directoryWeights): Promise<PolicyFacts> {
  const [tokenizer, config] = await Promise.all([
    readNeeded(files, policy, 'tokenizer.json'),
    readNeeded(files, policy, 'config.json'),
  ])
  const text = Buffer.from(config).toString('utf8')
  const vocabSize: unknown = (JSON.parse(text) as { vocab_size?: unknown }).vocab_size
  if (typeof vocabSize !== 'number') throw broken(policy.uri, 'config.json has no vocab_size')
  return { tokenizerSha256: sha256Hex(tokenizer), vocabSize, positions: readPositions(text) }
}

async function readNeeded(files: Files, policy: PolicyRef, name: string): Promise<Uint8Array> {
  const path = `${policy.uri}/${name}`
  const bytes = await files.readFile({ policy, part: 'policy', name }).catch((cause: unknown) => {
    // An unavailable bucket already throws its own error.
    if (isLonghaulError(cause)) throw cause
    throw broken(path, 'cannot be read', cause)
  })
  if (bytes !== null) return bytes
  throw broken(path, 'is not there')
}

function broken(path: string, fault: string, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Corrupt',
    message: 'Expected a Hugging Face model directory',
    details: { path, fault },
    cause,
  })
}
