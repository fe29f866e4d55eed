import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import { type Positions, readPositions } from './rope-statement.ts'
import { sha256Hex } from '../../../platform/hash.ts'

/** What a batch must say about the model it was sampled from. */
export interface PolicyFacts {
  /** SHA-256 of `tokenizer.json`. */
  tokenizerSha256: string
  vocabSize: number
  positions: Positions
}

/** @throws LonghaulError `Artifact.Corrupt` when the directory is no Hugging Face model directory */
export async function readPolicyFacts({ uri }: Pick<PolicyRef, 'uri'>): Promise<PolicyFacts> {
  const directory = fileURLToPath(uri)
  const [tokenizer, config] = await Promise.all([
    readNeeded(join(directory, 'tokenizer.json')),
    readNeeded(join(directory, 'config.json')),
  ])
  const text = config.toString('utf8')
  const vocabSize: unknown = (JSON.parse(text) as { vocab_size?: unknown }).vocab_size
  if (typeof vocabSize !== 'number') throw broken(directory, 'config.json has no vocab_size')
  return { tokenizerSha256: sha256Hex(tokenizer), vocabSize, positions: readPositions(text) }
}

async function readNeeded(path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (cause) {
    throw broken(path, 'cannot be read', cause)
  }
}

function broken(path: string, fault: string, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Corrupt',
    message: 'Expected a Hugging Face model directory',
    details: { path, fault },
    cause,
  })
}
