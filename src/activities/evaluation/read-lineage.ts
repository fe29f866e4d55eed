/** The inputs behind a run's figures: code, data, images, grading and policies, by their hashes. */
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EvaluationLineage, LineageRecord, PolicyHash, RunLineage } from '../../contracts/costs.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import type { TaskGate } from '../../contracts/gates.types.ts'
import { episodeKeys, gateKeys, policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { Promotion, TrainingRecord } from '../../contracts/training.types.ts'
import { compareText } from '../../domain/hash-order.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readCodes } from '../run/record-code.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'
import { readSuiteOrigin } from './suite-origin.ts'

interface LineageInput {
  run: string
  recipeSha256: string
  evaluations: readonly EvaluationRecord[]
}

export async function readRunLineage(
  store: ArtifactStore,
  { run, recipeSha256, evaluations }: LineageInput,
): Promise<RunLineage> {
  const readParent = await createParentReader(store, run)
  const known = new Map<string, Made>()
  const described: EvaluationLineage[] = []
  for (const evaluation of evaluations) {
    const chain = await chainOf(readParent, evaluation.score.policy)
    for (const made of chain) known.set(made.version, made)
    described.push({
      name: evaluation.name,
      policies: chain.map(({ version, manifestSha256 }) => ({ version, manifestSha256 })),
      ...(await dataOf(store, evaluation.suite)),
      ...(await gradedIn(store, run, evaluation)),
    })
  }
  const codes = await readCodes(store, run)
  const promotions = await promotionsOf(store, run)
  return {
    recipeSha256,
    code: codes.map(({ version, revision, filesSha256, node }) => ({ version, revision, filesSha256, node })),
    evaluations: described,
    policies: [...known.values()].map((made) => ({ ...made, promotion: promotions.get(made.version) ?? null })),
  }
}

type Made = Omit<RunLineage['policies'][number], 'promotion'>
type ParentReader = (version: string) => Promise<Made>

/** A longer chain of policies must be a loop. */
const MOST_PARENTS = 10_000

async function chainOf(readParent: ParentReader, version: string): Promise<Made[]> {
  const chain: Made[] = []
  for (let next: string | null = version; next !== null && chain.length < MOST_PARENTS; ) {
    const made: Made = await readParent(next)
    chain.unshift(made)
    next = made.parent
  }
  return chain
}

/** Uses the record of the policy's job; for policies trained by an earlier version, the order of this run's jobs. */
async function createParentReader(store: ArtifactStore, run: string): Promise<ParentReader> {
  const keys = await store.list(`runs/${run}/training/`)
  const jobs = (await Promise.all(keys.map((key) => readUnlessCorrupt<TrainingRecord>(store, key))))
    .filter((job) => job !== null)
    .toSorted((a, b) => stepOf(a.policy) - stepOf(b.policy))
  const base = await readUnlessCorrupt<PolicyRef>(store, runKeys.policy(run, 'base'))
  const known = new Map<string, Made>()
  const manifestOf = async (version: string): Promise<string | null> => {
    const manifest = (await readUnlessCorrupt<PolicyRef>(store, policyKeys.ref(version)))?.manifestSha256
    return manifest === undefined || manifest === '' ? null : manifest
  }
  const readMade = async (version: string): Promise<Made> => {
    const record = await readUnlessCorrupt<LineageRecord>(store, policyKeys.lineage(version))
    if (record !== null) {
      const { run: by, stage, iteration } = record.by
      return { ...record.policy, parent: record.parent.version, by: { run: by, stage, iteration } }
    }
    const hash: PolicyHash = { version, manifestSha256: await manifestOf(version) }
    const at = jobs.findIndex(({ policy }) => policy === version)
    const job = jobs[at]
    if (job === undefined) return { ...hash, parent: null, by: null }
    const { stage, iteration } = job
    return { ...hash, parent: jobs[at - 1]?.policy ?? base?.version ?? null, by: { run, stage, iteration } }
  }
  return async (version) => {
    const made = known.get(version) ?? (await readMade(version))
    known.set(version, made)
    return made
  }
}

/** The optimizer step in the version, which all versions of trained policies contain. */
function stepOf(version: string): number {
  return Number(/^v(\d+)-/.exec(version)?.[1] ?? 0)
}

async function promotionsOf(store: ArtifactStore, run: string): Promise<Map<string, number>> {
  const keys = await store.list(policyKeys.promotions)
  const records = await Promise.all(keys.map((key) => readUnlessCorrupt<Promotion>(store, key)))
  return new Map(
    records.flatMap((record) => (record?.run === run ? [[record.policy.version, record.number] as const] : [])),
  )
}

async function dataOf(
  store: ArtifactStore,
  suite: string,
): Promise<Pick<EvaluationLineage, 'suite' | 'dataset' | 'revision'>> {
  const origin = await readSuiteOrigin(store, suite)
  const revision = origin?.revision ?? origin?.files[0]?.sha256 ?? null
  return { suite, dataset: origin?.dataset ?? null, revision }
}

/** Images of the grading containers; for a task without one, the image of its gate. */
async function gradedIn(
  store: ArtifactStore,
  run: string,
  { stage, suite, tasks }: EvaluationRecord,
): Promise<Pick<EvaluationLineage, 'images' | 'grading'>> {
  const keys = await store.list(episodeKeys.ofIteration({ run, stage, iteration: 0 }))
  const images = new Map<string, Set<string>>()
  const grading = new Set<string>()
  for (const key of keys.filter((one) => one.split('/').length === 7 && one.endsWith('/verdict.json'))) {
    const verdict = await readUnlessCorrupt<VerdictRecord>(store, key)
    if (verdict === null) continue
    const { taskId, profile, provenance, from, image } = verdict
    // Without a container, neither profile nor image affected the verdict.
    if (from !== 'container') continue
    // Records of earlier versions have no revision, and neither have records that only state why there is no verdict.
    grading.add(provenance === undefined ? profile : `${profile} r${provenance.profileRevision}`)
    if (provenance !== undefined) images.set(taskId, (images.get(taskId) ?? new Set<string>()).add(image))
  }
  for (const { taskId } of tasks) {
    if (images.has(taskId)) continue
    const gate = await readUnlessCorrupt<TaskGate>(store, gateKeys.task(run, suite, taskId))
    const digest = gate?.imageDigest ?? null
    if (digest !== null) images.set(taskId, new Set([digest]))
  }
  const digests = [...new Set([...images.values()].flatMap((some) => [...some]))].sort(compareText)
  return {
    images: {
      count: digests.length,
      sha256: sha256Hex(digests.map((digest) => `${digest}\n`).join('')),
      unknown: tasks.filter(({ taskId }) => !images.has(taskId)).length,
    },
    grading: [...grading].sort(compareText),
  }
}
