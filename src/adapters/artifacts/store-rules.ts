import { isAbsolute } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import {
  alarmKeys,
  episodeId,
  episodeKeys,
  gateKeys,
  gradingKeys,
  nightKeys,
  policyKeys,
  predictionKeys,
  recipeKeys,
  removalKeys,
  runKeys,
  suiteKeys,
} from '../../contracts/keys.ts'
import * as episodes from './records/episode-shapes.ts'
import * as runs from './records/run-shapes.ts'
import * as suites from './records/suite-shapes.ts'
import { storedRecipe } from './records/recipe-shape.ts'
import { type Shape, fieldOf } from './records/shape.ts'

/** Holds half-written files. It is in the same file system as the keys and is never listed. */
export const TEMP_DIRECTORY = '.tmp'

/** The usual limit of a file name. A longer name would fail in the middle of a write. */
const MAX_SEGMENT_BYTES = 255

/** Validates a key. Keys become paths, and some of their parts come from data sets, so no key may point outside the store.
 *  @throws LonghaulError `Config.Invalid` */
export function checkKey(key: string): string {
  const fault = keyFault(key)
  if (fault === null) return key
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected an artifact key of relative segments, got one that ${fault}`,
    details: { key: JSON.stringify(key.slice(0, 300)) },
  })
}

function keyFault(key: string): string | null {
  if (key === '') return 'is empty'
  if (isAbsolute(key)) return 'is absolute'
  if (key.includes('\\')) return 'holds a backslash'
  if (/\p{Cc}/u.test(key)) return 'holds a control character'
  const segments = key.split('/')
  if (segments.some((segment) => segment === '')) return 'holds an empty segment'
  if (segments.some((segment) => segment === '.' || segment === '..')) return 'points outside'
  if (segments.some((segment) => Buffer.byteLength(segment) > MAX_SEGMENT_BYTES))
    return 'holds a segment over 255 bytes'
  if (segments[0] === TEMP_DIRECTORY) return 'names the store’s own temporary directory'
  return null
}

/** A folder must end with a slash, because `runs/a` would also match `runs/ab`. @throws LonghaulError `Config.Invalid` */
export function checkFolder(folder: string): string {
  if (folder.endsWith('/')) return `${checkKey(folder.slice(0, -1))}/`
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected the prefix of a folder to end with a slash',
    details: { folder: JSON.stringify(folder.slice(0, 300)) },
  })
}

/** Validates a prefix, which may end inside a segment; empty for all keys. @throws LonghaulError `Config.Invalid` */
export function checkPrefix(prefix: string): string {
  if (prefix !== '') checkKey(prefix.replace(/\/$/, ''))
  return prefix
}

/** Keys per page of a listing: S3's maximum. */
export const PAGE_KEYS = 1_000

const SEAL = /,?"sha256":"([0-9a-f]{64})"\}\n$/
const SEAL_BYTES = `,"sha256":"${'0'.repeat(64)}"}\n`.length

/**
 * Seals a record: its last field is the hash of the JSON text without that field, so a reader can verify the bytes without the
 * reference or a canonical form of JSON.
 */
export function sealRecord(record: object): Uint8Array {
  const { sha256: _replaced, ...content } = record as { sha256?: unknown }
  const text = JSON.stringify(content)
  const separator = text === '{}' ? '' : ','
  return Buffer.from(`${text.slice(0, -1)}${separator}"sha256":"${sha256Hex(text)}"}\n`)
}

/**
 * Returns the record without its seal, if it is one that was written under this key and has the shape of its kind.
 * @param key names the record in errors
 * @param ofKey the key whose kind of record it is, for a file outside of the store
 * @throws LonghaulError `Artifact.Corrupt`
 */
export function openRecord<T extends object>(key: string, bytes: Uint8Array, ofKey: string = key): T {
  const sealed = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  // Its last bytes alone tell whether the others are worth a text.
  const seal = SEAL.exec(sealed.toString('latin1', sealed.byteLength - SEAL_BYTES))
  if (seal === null) throw corrupt(key, 'no sha256 as the last field')
  const text = `${sealed.toString('utf8', 0, sealed.byteLength - seal[0].length)}}`
  if (sha256Hex(text) !== seal[1]) throw corrupt(key, 'content differs from its sha256')
  const record = parseRecord<T>(key, text)
  const fault = misplaced(key, record)
  if (fault !== null) throw corrupt(key, fault)
  const misfit = findMisfit(ofKey, record)
  if (misfit !== null) throw corrupt(key, misfit)
  return record
}

function parseRecord<T extends object>(key: string, text: string): T {
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw corrupt(key, 'not JSON', cause)
  }
}

/** Schemas that this version reads in a version other than 1. */
export const SCHEMA_VERSIONS: Readonly<Record<string, number>> = { evaluation: 2, gate: 2, 'gated-suite': 2 }

/** Schema of each file of an episode, without its version. */
const EPISODE_FILES: Readonly<Record<string, string>> = {
  'spec.json': 'episode',
  'turns/start.json': 'episode-start',
  'turns/#.action.json': 'action',
  'turns/#.observation.json': 'observation',
  'turns/#.tree.json': 'tree',
  'placements/#.json': 'placement',
  'disposition.json': 'disposition',
  'capture.json': 'capture',
  'verdict.json': 'verdict',
  'result.json': 'episode-result',
}

interface Told {
  schema?: unknown
  episode?: unknown
  turn?: unknown
  placement?: unknown
  run?: unknown
  stage?: unknown
  iteration?: unknown
  taskId?: unknown
  name?: unknown
}

/**
 * Returns why this record cannot be the one of its key; null if nothing speaks against it. A seal proves that the bytes of a record are
 * whole, not that they are where they were written. Fields that a record lacks prove nothing.
 */
export function misplaced(key: string, record: object): string | null {
  const told = record as Told
  return (
    laterSchema(told) ??
    foreignEpisode(key, told) ??
    foreignIteration(key, told) ??
    foreignRun(key, told) ??
    foreignTask(key, told)
  )
}

function laterSchema({ schema }: Told): string | null {
  const [, name = '', version] = (typeof schema === 'string' && /^longhaul\.([a-z-]+)\/(\d+)$/.exec(schema)) || []
  if (version === undefined || Number(version) <= (SCHEMA_VERSIONS[name] ?? 1)) return null
  return `a later version of Longhaul wrote it (${String(schema)})`
}

function foreignEpisode(key: string, told: Told): string | null {
  const [, id, file = '', number] =
    /^episodes\/((?:[^/]+\/){4}[^/]+)\/((?:turns\/|placements\/)?(?:(\d+)(?:\.[a-z]+)?|[a-z]+)\.json)$/.exec(key) ?? []
  if (id === undefined) return null
  if (typeof told.episode === 'string' && told.episode !== id) return `it is a record of episode ${told.episode}`
  const expected = EPISODE_FILES[number === undefined ? file : file.replace(number, '#')]
  if (expected === undefined) return null
  if (typeof told.schema === 'string' && !told.schema.startsWith(`longhaul.${expected}/`))
    return `it is a ${told.schema}`
  const counted = expected === 'placement' ? told.placement : told.turn
  if (number === undefined || typeof counted !== 'number' || counted === Number(number)) return null
  return `it is a record of ${expected === 'placement' ? 'placement' : 'turn'} ${counted}`
}

function foreignIteration(key: string, { run, stage, iteration }: Told): string | null {
  const [, ofRun, ofStage, number] = /^runs\/([^/]+)\/([^/]+)\/iterations\/(\d+)\/[^/]+$/.exec(key) ?? []
  if (ofRun === undefined || ofStage === undefined) return null
  const isOwn =
    (typeof run !== 'string' || run === ofRun) &&
    (typeof stage !== 'string' || stage === ofStage) &&
    (typeof iteration !== 'number' || iteration === Number(number))
  return isOwn ? null : `it is a record of ${String(run)}, ${String(stage)}, iteration ${String(iteration)}`
}

/** Of a run beside its iterations: whose it is, and which evaluation. */
function foreignRun(key: string, { run, name }: Told): string | null {
  const [, ofRun, rest = ''] = /^runs\/([^/]+)\/(.*)$/.exec(key) ?? []
  if (ofRun === undefined) return null
  if (typeof run === 'string' && run !== ofRun) return `it is a record of run ${run}`
  const [, evaluation] = /^evaluations\/([^/]+)\.json$/.exec(rest) ?? []
  if (evaluation === undefined || typeof name !== 'string' || name === evaluation) return null
  return `it is the evaluation ${name}`
}

function foreignTask(key: string, { taskId }: Told): string | null {
  const [, ofTask] = /^suites\/[^/]+\/tasks\/([^/]+)\.json$/.exec(key) ?? []
  return ofTask === undefined || typeof taskId !== 'string' || taskId === ofTask ? null : `it is the task ${taskId}`
}

/** What an operator can do about a damaged record or file. */
function toRepair(key: string): string {
  const [place, run = 'RUN', kind = ''] = key.split('/')
  if (place === 'runs' && kind === 'evaluations') {
    return `Move it out of the store and let longhaul report ${run} --recompute derive it again, or restore it from a backup`
  }
  if (place === 'gates') return 'Move it out of the store, and the next gate grades again; or restore it from a backup'
  if (place === 'episodes') {
    return 'Restore it from a backup of the store; until then, longhaul export leaves out and counts an episode whose result is damaged'
  }
  return 'Restore it from a backup of the store'
}

export function corrupt(key: string, fault: string, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Corrupt',
    message: `Expected stored bytes to be those that were written under their key. ${toRepair(key)}`,
    details: { key, fault },
    cause,
  })
}

export function conflict(ref: ArtifactRef, stored: Uint8Array): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Conflict',
    message: 'Expected the same bytes under a key that is already taken, got different bytes',
    details: { key: ref.key, ours: ref.sha256, stored: sha256Hex(stored), storedBytes: stored.byteLength },
  })
}

export function missingArtifact(key: string): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Missing',
    message: 'Expected a stored artifact, found none',
    details: { key },
  })
}

/** Returns the bytes if they match the reference. @throws LonghaulError `Artifact.Missing`, `Artifact.Corrupt` */
export function requireReferenced<T extends Uint8Array>(ref: ArtifactRef, bytes: T | null): T {
  if (bytes === null) throw missingArtifact(ref.key)
  if (bytes.byteLength !== ref.bytes) throw corrupt(ref.key, `expected ${ref.bytes} bytes, found ${bytes.byteLength}`)
  if (sha256Hex(bytes) !== ref.sha256) throw corrupt(ref.key, 'content differs from the reference')
  return bytes
}

/** A call of the store, as shown to `around`. */
interface StoreCall {
  doing: 'writing' | 'reading' | 'listing' | 'removing'
  /** The key, the prefix of a listing, or the folder to remove. */
  key: string
}

/** Wraps a store so that all calls go through `around`, except those of `weights`, whose duration depends on the file size. */
export function wrapStore(
  store: ArtifactStore,
  around: <T>(call: StoreCall, work: () => Promise<T>) => Promise<T>,
): ArtifactStore {
  return {
    put: (key, bytes) => around({ doing: 'writing', key }, () => store.put(key, bytes)),
    get: (ref) => around({ doing: 'reading', key: ref.key }, () => store.get(ref)),
    read: (key) => around({ doing: 'reading', key }, () => store.read(key)),
    putRecord: (key, record) => around({ doing: 'writing', key }, () => store.putRecord(key, record)),
    claimRecord: (key, record) => around({ doing: 'writing', key }, () => store.claimRecord(key, record)),
    readRecord: (key) => around({ doing: 'reading', key }, () => store.readRecord(key)),
    list: (prefix) => around({ doing: 'listing', key: prefix }, () => store.list(prefix)),
    listPage: (input) => around({ doing: 'listing', key: input.prefix }, () => store.listPage(input)),
    folders: (folder) => around({ doing: 'listing', key: folder }, () => store.folders(folder)),
    removeFolder: (folder) => around({ doing: 'removing', key: folder }, () => store.removeFolder(folder)),
    // Computed from the settings of the store without a request.
    locate: (key) => store.locate(key),
    path: (key) => store.path(key),
    uri: (key) => store.uri(key),
    weights: store.weights,
  }
}

// Which shape the record of each key has: the one table that readers of every kind of record go through.

export interface RecordKind {
  /** For messages. */
  name: string
  /** With `*` for names and a number of zeros and `NaN` for numbers. */
  example: string
  keys: RegExp
  shape: Pick<Shape<never>, 'misfit'>
  /** Shapes of earlier versions of its schema that readers still know, by schema. */
  earlier?: Readonly<Record<string, Pick<Shape<never>, 'misfit'>>>
}

/** Stand for a part of a key: any name, any number. */
const NAME = '*'
const NUMBER = Number.NaN

const EPISODE = episodeId({ run: NAME, stage: NAME, iteration: NUMBER, taskId: NAME, index: NUMBER })
const GRADING = { run: NAME, taskId: NAME, profile: NAME, patchSha256: NAME }
const OWN_GRADING = { ...GRADING, episode: null }
const AGAIN = { ...GRADING, episode: EPISODE }

/** Makes the pattern of a key from the function that spells it. */
function keysLike(key: string): RegExp {
  const escaped = key.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`)
  return new RegExp(`^${escaped.replaceAll(/0*NaN/g, String.raw`\d+`).replaceAll('*', '[^/]+')}$`)
}

const kind = (name: string, key: string, shape: RecordKind['shape'], more: Partial<RecordKind> = {}): RecordKind => ({
  name,
  example: key,
  keys: keysLike(key),
  shape,
  ...more,
})

export const RECORD_KINDS: readonly RecordKind[] = [
  kind('action', episodeKeys.action(EPISODE, NUMBER), episodes.action),
  kind('observation', episodeKeys.observation(EPISODE, NUMBER), episodes.observation),
  kind('tree', episodeKeys.tree(EPISODE, NUMBER), episodes.tree),
  kind('episode’s start', episodeKeys.start(EPISODE), episodes.episodeStart),
  kind('episode', episodeKeys.spec(EPISODE), episodes.episodeSpec),
  kind('placement', episodeKeys.placement(EPISODE, NUMBER), episodes.placement),
  kind('disposition', episodeKeys.disposition(EPISODE), episodes.dispositionRecord),
  kind('capture', episodeKeys.capture(EPISODE), episodes.capture),
  kind('verdict', episodeKeys.verdict(EPISODE), episodes.verdict),
  kind('grading attempt', episodeKeys.gradingAttempt(EPISODE, NUMBER), episodes.gradingAttempt),
  kind('grading time-out', episodeKeys.grading(EPISODE, NAME, 'timed-out.json'), episodes.gradingTimeOut),
  kind('grading time-out', gradingKeys.file(AGAIN, 'timed-out.json'), episodes.gradingTimeOut),
  kind('grading time-out', gradingKeys.file(OWN_GRADING, 'timed-out.json'), episodes.gradingTimeOut),
  kind('episode’s result', episodeKeys.result(EPISODE), episodes.episodeResult),
  kind('verdict', gradingKeys.file(AGAIN, 'verdict.json'), episodes.verdict),
  kind('ungraded patch', gradingKeys.file(AGAIN, 'ungraded.json'), suites.ungraded),
  kind('verdict', gradingKeys.file(OWN_GRADING, 'verdict.json'), episodes.verdict),
  kind('ungraded patch', gradingKeys.file(OWN_GRADING, 'ungraded.json'), suites.ungraded),
  kind('grading plan', gradingKeys.plan(NAME), suites.gradingPlan),
  kind('grading', gradingKeys.result(NAME), suites.grading),
  kind('predictions', predictionKeys.set(NAME), suites.predictions),
  kind('claim of a run', runKeys.claim(NAME), runs.runClaim),
  kind('recipe', runKeys.recipe(NAME), storedRecipe),
  kind('policy', runKeys.policy(NAME, NAME), runs.policyRef),
  kind('pinned split', runKeys.pinnedSplit(NAME, NAME), suites.pinnedSplit),
  kind('plan', runKeys.plan(NAME, NAME, NUMBER), runs.iterationPlan),
  kind('refill', runKeys.refill(NAME, NAME, NUMBER, NUMBER), runs.refillPlan),
  kind('overlap', runKeys.overlap(NAME), suites.overlap),
  kind('pool', runKeys.pool(NAME, NAME), runs.pool),
  kind('plateau', runKeys.plateau(NAME, NAME, NUMBER), runs.plateau),
  kind('job plan', `${runKeys.batch(NAME, NAME, NUMBER, NUMBER)}/plan.json`, runs.jobPlan),
  kind('ledger', runKeys.ledger(NAME, NAME, NUMBER), runs.ledger),
  kind('training', runKeys.training(NAME, NAME, NUMBER, NUMBER), runs.training),
  kind('engines', runKeys.engines(NAME), runs.engines),
  kind('job time', runKeys.jobTime(NAME, NAME, NUMBER, NUMBER), runs.jobTime),
  kind('code', runKeys.code(NAME, NUMBER), runs.code),
  kind('player', runKeys.player(NAME, NUMBER), runs.player),
  kind('night', runKeys.night(NAME, NAME), runs.night),
  kind('night', nightKeys.night({ series: NAME, at: NAME, run: NAME, name: NAME }), runs.night),
  kind('kept policies', runKeys.keptPolicies(NAME), runs.keptPolicies),
  kind('promotion decision', runKeys.promotion(NAME), runs.promotionDecision),
  kind('evaluation', runKeys.evaluation(NAME, NAME), runs.evaluation, {
    earlier: { 'longhaul.evaluation/1': runs.evaluation1 },
  }),
  kind('durations', runKeys.durations(NAME, NUMBER), runs.durations),
  kind('measurement', runKeys.measured(NAME, NUMBER), runs.measured),
  kind('tracked run', runKeys.tracked(NAME, NAME), runs.tracked),
  kind('gate', gateKeys.grading(NAME, NAME, NAME, NUMBER), suites.gate),
  kind('image check', gateKeys.image(NAME), suites.imageCheck),
  kind('task’s gate', gateKeys.task(NAME, NAME, NAME), suites.taskGate),
  kind('gated suite', gateKeys.gated(NAME, NAME), suites.gatedSuite),
  kind('gate report', gateKeys.report(NAME, NAME, 'report.json'), suites.gateReport),
  kind('suite', suiteKeys.manifest(NAME), suites.suiteManifest),
  kind('suite’s origin', suiteKeys.origin(NAME), suites.suiteOrigin),
  kind('imported suite', suiteKeys.imported(NAME), suites.importedSuite),
  kind('row', suiteKeys.row(NAME, NAME), suites.row),
  kind('made suite', suiteKeys.madeBy(NAME), suites.madeSuite),
  kind('pinned files', suiteKeys.pinnedFiles(NAME, NAME), suites.pinnedFiles),
  kind('task', suiteKeys.task(NAME, NAME), suites.task),
  kind('policy', policyKeys.ref(NAME), runs.policyRef),
  kind('weights', policyKeys.weights(NAME), runs.weights),
  kind('lineage', policyKeys.lineage(NAME), runs.lineage),
  kind('promotion', policyKeys.promotion(NUMBER), runs.promotion),
  kind('removal', removalKeys.begun(NAME), runs.removalBegun),
  kind('removal', removalKeys.takenUp(NAME, NUMBER), runs.removalTakenUp),
  kind('removal', removalKeys.sign(NAME, NUMBER, NUMBER), runs.removalSign),
  kind('removal', removalKeys.givenUp(NAME, NUMBER), runs.removalSign),
  kind('removal', removalKeys.removed(NAME, NUMBER), runs.removalSign),
  kind('alarm', alarmKeys.alarm(NAME), runs.alarm),
  kind('sent alarm', alarmKeys.sent(NAME), runs.alarmSent),
  kind('counts of a schedule', alarmKeys.firstCounts(NAME), runs.alarmCounts),
  kind('beginning of the watch', alarmKeys.since, runs.alarmsSince),
  kind('pushed recipe', recipeKeys.pushed(NAME), runs.pushedRecipe),
]

/** By the first segment of the key and the number of segments: a run reads thousands of records. */
const KINDS = Map.groupBy(RECORD_KINDS, ({ example }) => placeOf(example))

function placeOf(key: string): string {
  const segments = key.split('/')
  return `${segments[0]} ${segments.length}`
}

/** Null for a key under which no kind of record is stored. */
export function kindOf(key: string): RecordKind | null {
  return KINDS.get(placeOf(key))?.find(({ keys }) => keys.test(key)) ?? null
}

/**
 * Returns which field of the record has not the type that its kind of record gives it; null for a record of its kind, and for a key
 * of none.
 */
function findMisfit(key: string, record: unknown): string | null {
  const found = kindOf(key)
  return found === null ? null : misfitOf(found, record)
}

export function misfitOf({ name, shape, earlier }: RecordKind, record: unknown): string | null {
  const schema = (record as { schema?: unknown } | null)?.schema
  const known = typeof schema === 'string' && earlier !== undefined && Object.hasOwn(earlier, schema)
  const misfit = ((known ? earlier[schema] : undefined) ?? shape).misfit(record)
  if (misfit === null) return null
  const { expected, got } = misfit
  const field = fieldOf(misfit)
  const place = field === '' ? 'the record' : `its field ${field}`
  return `${place} is ${got}, but in a record of this kind (${name}) it is ${expected}`
}
