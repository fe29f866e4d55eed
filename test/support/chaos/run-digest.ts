/** A finished run reduced to what no fault may change: identities, actions, observations, verdicts, ledger lines, batches, optimizer
 *  steps and weights. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { EpisodeRecord, VerdictRecord } from '../../../src/contracts/episodes.types.ts'
import type { EvaluationRecord } from '../../../src/contracts/evaluations.types.ts'
import { episodeKeys, policyKeys } from '../../../src/contracts/keys.ts'
import type { TrainingRecord } from '../../../src/contracts/training.types.ts'
import type { Ledger, LedgerEntry } from '../../../src/domain/ledger/ledger.ts'
import { readWholeTurns } from '../../../src/activities/episode/transcript.ts'
import { readUnlessCorrupt } from '../../../src/activities/runtime/stored-records.ts'
import { type BatchManifest, batchesOf, episodesOf } from '../run-records.ts'
import { sha256Hex } from '../../../src/platform/hash.ts'

export interface EpisodeDigest {
  /** `<stage>/<iteration>/<task>/<index>` */
  id: string
  disposition: string
  failure: string | null
  /** One text per turn; equal texts mean equal turns. */
  turns: string[]
  /** Null if there is none. */
  verdict: string | null
  patch: string | null
  result: string
}

/** A batch and the training job that used it. */
export interface JobDigest {
  /** Directory of the batch, relative to the run's. */
  id: string
  batch: string
  /** Figures of every optimizer step; null if the job recorded none. */
  steps: string[] | null
  /** Hashes of the published weights, and of the checkpoint with the optimizer's state. */
  weights: string | null
}

export interface RunDigest {
  episodes: EpisodeDigest[]
  ledgers: string[]
  /** The ledger's fate of each episode, by id; the last one if there are two. */
  fates: ReadonlyMap<string, LedgerEntry['fate']>
  jobs: JobDigest[]
  /** Scores of the evaluations. */
  evaluations: string[]
}

export async function digestRun(store: ArtifactStore, run: string): Promise<RunDigest> {
  const records = await episodesOf(store, run)
  const episodes = await Promise.all(records.map((record) => digestEpisode(store, run, record)))
  const keys = await store.list(`runs/${run}/`)
  const ledgers = await readAll<Ledger>(store, keys, (key) => key.endsWith('/ledger.json'))
  const trainings = await readAll<TrainingRecord>(store, keys, (key) => key.startsWith(`runs/${run}/training/`))
  const evaluations = await readAll<EvaluationRecord>(store, keys, (key) => key.startsWith(`runs/${run}/evaluations/`))
  const batches = await batchesOf(store, run)
  return {
    episodes,
    ledgers: ledgers.map(({ stage, iteration, entries }) => plain(run, { stage, iteration, entries })),
    fates: new Map(
      ledgers.flatMap(({ entries }) =>
        entries.map(({ episode, fate }) => [episode.slice(run.length + 1), fate] as const),
      ),
    ),
    jobs: await Promise.all(batches.map((batch) => digestJob(store, run, batch, trainings))),
    evaluations: evaluations.map(({ name, score, official, verdicts, dispositions }) =>
      plain(run, { name, score, official, verdicts, dispositions }),
    ),
  }
}

async function readAll<T extends object>(
  store: ArtifactStore,
  keys: readonly string[],
  isWanted: (key: string) => boolean,
): Promise<T[]> {
  const wanted = keys.filter((key) => isWanted(key) && key.endsWith('.json'))
  return Promise.all(wanted.map(async (key) => (await store.readRecord<T>(key)) as T))
}

async function digestEpisode(store: ArtifactStore, run: string, record: EpisodeRecord): Promise<EpisodeDigest> {
  const { episode, disposition, failure } = record
  const turns = (await readWholeTurns(store, episode)).flatMap(({ action, observation }) => {
    if (observation === null) return []
    const { token: _, sampledAtMs: __, sampleMs: ___, ...sampled } = action
    const { observedAtMs: ____, execution, ...seen } = observation
    const ended = execution === null ? null : { ...execution, wallMs: 0 }
    return [plain(run, { sampled, seen, ended })]
  })
  const verdict = await readUnlessCorrupt<VerdictRecord>(store, episodeKeys.verdict(episode))
  const patch = await store.read(episodeKeys.patch(episode))
  return {
    id: episode.slice(run.length + 1),
    disposition,
    failure,
    turns,
    verdict: verdict === null ? null : plain(run, lastingPart(verdict)),
    patch: patch === null ? null : sha256Hex(patch),
    result: plain(run, record),
  }
}

/** `runs/<run>/<stage>/iterations/0001/batch-00/batch.json` */
async function digestJob(
  store: ArtifactStore,
  run: string,
  { key, ...manifest }: BatchManifest,
  trainings: readonly TrainingRecord[],
): Promise<JobDigest> {
  const id = key.slice(`runs/${run}/`.length, -'/batch.json'.length)
  const [, stage, iteration, slice] = /^(.+)\/iterations\/(\d+)\/batch-(\d+)$/.exec(id) ?? []
  const training = trainings.find(
    (one) => one.stage === stage && one.iteration === Number(iteration) && one.slice === Number(slice),
  )
  return {
    id,
    batch: plain(run, withoutTrainedHashes(manifest)),
    steps: training?.steps.map(projectStep) ?? null,
    weights: training === undefined ? null : await hashStoredWeights(store, training.policy),
  }
}

/** Figures that the same job reproduces; others that are logged (times, speeds) are not compared. */
const COMPARED = ['global_step', 'loss', 'grad_norm', 'n_tokens', 'rows', 'lr', 'entropy', 'k1', 'k3', 'is_mean', 'ess']

export function projectStep(step: Record<string, unknown>): string {
  return JSON.stringify(Object.fromEntries(COMPARED.map((name) => [name, step[name] ?? null])))
}

/** Names of trained policies derive from the run's name, and so do their manifests' hashes; their weights are compared instead. */
function withoutTrainedHashes(manifest: object): object {
  return JSON.parse(
    JSON.stringify(manifest, (_, value: unknown) =>
      isTrainedPolicy(value) ? { ...value, manifest_sha256: '' } : value,
    ),
  ) as object
}

function isTrainedPolicy(value: unknown): value is { version: string } {
  const version = (value as { version?: unknown } | null)?.version
  return typeof version === 'string' && /^v\d{6}-/.test(version) && !version.startsWith('v000000-')
}

async function hashStoredWeights(store: ArtifactStore, version: string): Promise<string> {
  const hash = () =>
    hashWeights({
      policy: store.path(policyKeys.directory(version)),
      checkpoint: store.path(policyKeys.checkpoint(version)),
    })
  const policy = await store.weights.kept(version)
  if (policy === null) return hash()
  // Copies from the bucket to this process's own cache.
  return store.weights.use({ policy, part: 'policy' }, () => store.weights.use({ policy, part: 'checkpoint' }, hash))
}

/** Hashes only the tensors, because other files contain the run's name and the time. */
export async function hashWeights({ policy, checkpoint }: { policy: string; checkpoint: string }): Promise<string> {
  const hashes: string[] = []
  for (const directory of [policy, checkpoint]) {
    const names = existsSync(directory) ? await readdir(directory) : []
    for (const name of names.filter((one) => one.endsWith('.safetensors') && one !== 'canary.safetensors').sort()) {
      hashes.push(`${name} ${await hashFile(join(directory, name))}`)
    }
  }
  return hashes.join('\n')
}

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

/** The part of a verdict that another grading of the same patch reproduces: without the machine, and without the log, which contains
 *  durations. */
function lastingPart({ provenance, audit, ...verdict }: VerdictRecord): object {
  const kept = provenance === undefined ? {} : { provenance: { ...provenance, machine: null, logSha256: '' } }
  const audited = audit === undefined ? {} : { audit: { ...audit, auditMs: 0 } }
  return { ...verdict, ...kept, ...audited, gradeMs: 0, image: '' }
}

/** Replaces the run's name, and the hash of a trained policy, which derives from it. */
function plain(run: string, value: object): string {
  return JSON.stringify(value)
    .replaceAll(run, 'RUN')
    .replaceAll(/\bv(\d{6})-[0-9a-f]{8}\b/g, 'v$1')
}
