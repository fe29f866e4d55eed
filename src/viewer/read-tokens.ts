/** Reads an episode's tokens as the trainer read them: its row of the batch file, never a reconstruction. */
import { decodeSafetensors, type StoredTensor } from '../adapters/trainer-job/batch/safetensors.ts'
import { BATCH_FILE, BATCH_MANIFEST } from '../adapters/trainer-job/batch/batch-writer.ts'
import { type BatchManifest, parseBatchManifest } from '../adapters/trainer-job/batch/read-batch.ts'
import { readUnlessCorrupt } from '../activities/runtime/stored-records.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { policyKeys, runKeys } from '../contracts/keys.ts'
import type { EpisodeRow, TokensPage } from './pages.types.ts'
import type { StoredRecipe } from '../contracts/run-records.types.ts'

interface EpisodeBatch {
  directory: string
  /** Folder of the job that read the batch. */
  job: string
  manifest: BatchManifest
}

/** The batch with the episode's tokens; null if it was not trained on. */
export async function findBatch(store: ArtifactStore, row: EpisodeRow): Promise<EpisodeBatch | null> {
  const { stage, iteration, episode } = row
  const run = episode.split('/')[0] ?? ''
  for (let slice = 0; ; slice++) {
    const directory = runKeys.batch(run, stage, iteration, slice)
    const key = `${directory}/${BATCH_MANIFEST}`
    const bytes = await store.read(key)
    if (bytes === null) return null
    const manifest = parseBatchManifest(key, bytes)
    if (!manifest.trajectories.some(({ id }) => id === episode)) continue
    return { directory, job: runKeys.job(run, stage, iteration, slice), manifest }
  }
}

/** Null if the episode is in no batch. @throws LonghaulError `Artifact.Corrupt` if its batch cannot be read */
export async function readTokensPage(store: ArtifactStore, row: EpisodeRow): Promise<TokensPage | null> {
  const found = await findBatch(store, row)
  if (found === null) return null
  const key = `${found.directory}/${BATCH_FILE}`
  const bytes = await store.read(key)
  if (bytes === null) return null
  const tensors = open(key, bytes)
  const table = found.manifest.trajectories.findIndex(({ id }) => id === row.episode)
  const index = numbersIn(tensors, 'row_trajectory', key).indexOf(table)
  const offsets = numbersIn(tensors, 'row_offsets', key)
  const [from, to] = [offsets[index], offsets[index + 1]]
  if (from === undefined || to === undefined) throw broken(key, `no row of ${row.episode}`)
  const part = (name: string): number[] | null =>
    tensors.has(name) ? numbersIn(tensors, name, key).slice(from, to) : null
  const required = (name: string): number[] => part(name) ?? []
  const logprobs = part('behaviour_logprobs')
  const mask = required('loss_mask')
  const proximal = await readProximal(store, found.job, { from, to })
  const ids = required('input_ids')
  const policies = found.manifest.policies.map(({ version }) => version)
  return {
    kind: 'tokens',
    episode: row.episode,
    batch: key,
    ids,
    pieces: await piecesOf(store, policies, ids),
    mask,
    advantages: part('advantages'),
    logprobs,
    proximal,
    ratios: ratiosOf({ logprobs, proximal, mask }),
    clip: await clipOf(store, row),
    versions: required('policy_version'),
    policies,
  }
}

function open(key: string, bytes: Uint8Array): Map<string, StoredTensor> {
  try {
    return decodeSafetensors(bytes)
  } catch (error) {
    throw broken(key, error instanceof Error ? error.message : String(error))
  }
}

function numbersIn(tensors: Map<string, StoredTensor>, name: string, key: string): number[] {
  const tensor = tensors.get(name)
  if (tensor === undefined) throw broken(key, `no tensor ${name}`)
  const { dtype, bytes } = tensor
  const width = { I64: 8, I32: 4, F32: 4 }[dtype] ?? 1
  if (bytes.byteLength % width !== 0) throw broken(key, `tensor ${name} ends inside a value`)
  // An aligned copy, since `bytes` may be a view into the whole file.
  const { buffer } = new Uint8Array(bytes)
  switch (dtype) {
    case 'I64':
      return Array.from(new BigInt64Array(buffer), Number)
    case 'I32':
      return Array.from(new Int32Array(buffer))
    case 'F32':
      return Array.from(new Float32Array(buffer))
    case 'U8':
      return Array.from(new Uint8Array(buffer))
    default:
      throw broken(key, `tensor ${name} has the type ${dtype}`)
  }
}

/** What the job wrote before its first step, in the token order of the batch. */
async function readProximal(
  store: ArtifactStore,
  job: string,
  { from, to }: { from: number; to: number },
): Promise<number[] | null> {
  try {
    const key = `${job}/prox/prox.safetensors`
    const bytes = await store.read(key)
    return bytes === null ? null : numbersIn(decodeSafetensors(bytes), 'prox_logprobs', key).slice(from, to)
  } catch {
    return null
  }
}

/** The trainer scores only tokens that it trains on: a sampled but masked token has no ratio. */
function ratiosOf({
  logprobs,
  proximal,
  mask,
}: {
  logprobs: number[] | null
  proximal: number[] | null
  mask: number[]
}): number[] | null {
  if (logprobs === null || proximal === null) return null
  return mask.map((one, at) => (one === 1 ? Math.exp((proximal[at] ?? 0) - (logprobs[at] ?? 0)) : 0))
}

async function clipOf(store: ArtifactStore, { episode, stage }: EpisodeRow): Promise<TokensPage['clip']> {
  const run = episode.split('/')[0] ?? ''
  const stored = await readUnlessCorrupt<StoredRecipe>(store, runKeys.recipe(run))
  return stored?.recipe.reinforce?.stages.find(({ name }) => name === stage)?.clip ?? null
}

interface TokenizerFile {
  model?: { vocab?: Record<string, number> }
  added_tokens?: { id: number; content: string }[]
}

/** Each id as the tokenizer spells it. Byte-level pieces are not decoded, so that nothing is hidden. */
async function piecesOf(store: ArtifactStore, policies: string[], ids: number[]): Promise<string[] | null> {
  const [version] = policies
  if (version === undefined) return null
  try {
    const bytes = await store.read(`${policyKeys.directory(version)}/tokenizer.json`)
    if (bytes === null) return null
    const { model, added_tokens: added = [] } = JSON.parse(Buffer.from(bytes).toString('utf8')) as TokenizerFile
    const spelled = new Map(Object.entries(model?.vocab ?? {}).map(([piece, id]) => [id, piece]))
    for (const { id, content } of added) spelled.set(id, content)
    return ids.map((id) => spelled.get(id) ?? `#${id}`)
  } catch {
    return null
  }
}

function broken(key: string, found: string): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Corrupt',
    message: `Expected a batch at ${key}: ${found}`,
    details: { key },
  })
}
