/** Artifact keys: the one place that spells them. */
import type { Coordinates, EpisodeIdentity } from './episodes.types.ts'

const pad = (value: number, width: number): string => String(value).padStart(width, '0')

/** `<run>/<stage>/0003/<task>/07`: the id of an episode, without attempt. */
export function episodeId({ run, stage, iteration, taskId, index }: EpisodeIdentity): string {
  return `${run}/${stage}/${pad(iteration, 4)}/${taskId}/${pad(index, 2)}`
}

/** True for a name that can be part of ids, keys and queries. */
export function isRunName(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(name)
}

/** True for a name that a sandbox host can have (`hostIdentity` makes it so). */
export function isHostName(name: string): boolean {
  return /^[A-Za-z0-9-]{1,40}$/.test(name)
}

/** True for a build of control workers: operators type it, and Temporal joins it to other names with colons. */
export function isBuildName(name: string): boolean {
  return /^\w[\w.+-]{0,99}$/.test(name)
}

export function isTaskId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$/.test(id)
}

/** True for the id of a schedule; what it starts is named after it. */
export function isScheduleId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/.test(id)
}

export const runKeys = {
  /** Everything of a run but its episodes. */
  folder: (run: string) => `runs/${run}/`,
  claim: (run: string) => `runs/${run}/run.json`,
  recipe: (run: string) => `runs/${run}/recipe.json`,
  /** What a name of a policy (`base`, `promoted`, a version) stands for in this run. */
  policy: (run: string, asked: string) => `runs/${run}/policies/${asked}.json`,
  /** Which split `split: newest` of a suite (`heldOut`, `train`, a name of `evaluate.suites`) stands for in this run. */
  pinnedSplit: (run: string, which: string) => `runs/${run}/splits/${which}.json`,
  plan: (run: string, stage: string, iteration: number) =>
    `runs/${run}/${stage}/iterations/${pad(iteration, 4)}/plan.json`,
  /** Training tasks that are evaluated too. */
  overlap: (run: string) => `runs/${run}/overlap.json`,
  /** Tasks of a stage that selects its own. */
  pool: (run: string, stage: string) => `runs/${run}/${stage}/pool.json`,
  /** What was found when an iteration's evaluation was held against those before it. */
  plateau: (run: string, stage: string, iteration: number) =>
    `runs/${run}/${stage}/iterations/${pad(iteration, 4)}/plateau.json`,
  /** Further problems of an iteration, for groups without a spread; rounds from 1. */
  refill: (run: string, stage: string, iteration: number, round: number) =>
    `runs/${run}/${stage}/iterations/${pad(iteration, 4)}/refill-${pad(round, 2)}.json`,
  /** Directory of batch.safetensors and batch.json; RFT slices are numbered. */
  batch: (run: string, stage: string, iteration: number, slice: number) =>
    `runs/${run}/${stage}/iterations/${pad(iteration, 4)}/batch-${pad(slice, 2)}`,
  ledger: (run: string, stage: string, iteration: number) =>
    `runs/${run}/${stage}/iterations/${pad(iteration, 4)}/ledger.json`,
  /** Files of the training jobs of an iteration: specs, leases, progress. */
  job: (run: string, stage: string, iteration: number, slice: number) =>
    `runs/${run}/${stage}/iterations/${pad(iteration, 4)}/job-${pad(slice, 2)}`,
  /** What a training job measured. */
  training: (run: string, stage: string, iteration: number, slice: number) =>
    `runs/${run}/training/${stage}/${pad(iteration, 4)}-${pad(slice, 2)}.json`,
  /** Where the engines are that Longhaul launched for the run. */
  engines: (run: string) => `runs/${run}/engines.json`,
  /** How long that took, over all of its attempts. */
  jobTimes: (run: string) => `runs/${run}/training-time/`,
  jobTime: (run: string, stage: string, iteration: number, slice: number) =>
    `runs/${run}/training-time/${stage}/${pad(iteration, 4)}-${pad(slice, 2)}.json`,
  /** Which code resolved the run, one for each that did. */
  codes: (run: string) => `runs/${run}/code/`,
  code: (run: string, number: number) => `runs/${run}/code/${pad(number, 4)}.json`,
  /** Executions of roots that played the run after the one that claimed its name, numbered from 1. */
  players: (run: string) => `runs/${run}/players/`,
  player: (run: string, number: number) => `runs/${run}/players/${pad(number, 6)}.json`,
  playerNumber: (key: string) => Number(/\/players\/([0-9]+)\.json$/.exec(key)?.[1] ?? 0),
  /** How an evaluation stands against the last night and a baseline. */
  nights: (run: string) => `runs/${run}/nights/`,
  night: (run: string, name: string) => `runs/${run}/nights/${name}.json`,
  /** The policies that a run found kept when it began. */
  keptPolicies: (run: string) => `runs/${run}/kept-policies.json`,
  /** Why the run's last policy was promoted, or was not. */
  promotion: (run: string) => `runs/${run}/promotion.json`,
  evaluation: (run: string, name: string) => `runs/${run}/evaluations/${name}.json`,
  /** What only the workflow knew when it wrote report number n. */
  durations: (run: string, number: number) => `runs/${run}/durations/${pad(number, 4)}.json`,
  report: (run: string, file: string) => `runs/${run}/report/${file}`,
  /** In which order training and evaluation records came, for trackers; entries from 1. */
  measured: (run: string, number: number) => `runs/${run}/measured/${pad(number, 6)}.json`,
  allMeasured: (run: string) => `runs/${run}/measured/`,
  /** What a run is called at a tracker that names runs itself. */
  tracked: (run: string, tracker: string) => `runs/${run}/trackers/${tracker}.json`,
}

/** Folders of a run beside those of its stages. */
const RUN_FOLDERS: ReadonlySet<string> = new Set([
  'code',
  'durations',
  'evaluations',
  'gates',
  'grading',
  'measured',
  'nights',
  'players',
  'policies',
  'report',
  'splits',
  'trackers',
  'training',
  'training-time',
])

/** Returns whether the records of a stage of this name would lie among other records of the run. */
export function isRunFolder(name: string): boolean {
  return RUN_FOLDERS.has(name)
}

/** Of runs that are being removed: outside of their own folders, so that it is the last to go. */
export const removalKeys = {
  folder: (run: string) => `removals/${run}/`,
  begun: (run: string) => `removals/${run}/begun.json`,
  /** A later command that goes on with a removal, from 1: the highest number is at work. */
  takenUp: (run: string, number: number) => `removals/${run}/taken-up/${pad(number, 6)}.json`,
  allTakenUp: (run: string) => `removals/${run}/taken-up/`,
  /** Signs of life of a command, by the time that stands in their names. */
  sign: (run: string, number: number, atMs: number) => `removals/${run}/signs/${number}/${pad(atMs, 15)}.json`,
  signs: (run: string, number: number) => `removals/${run}/signs/${number}/`,
  signedAtMs: (key: string) => Number(/([0-9]+)\.json$/.exec(key)?.[1] ?? 0),
  /** When a run of the name was removed, ms since 1970. Outside of the folder, which goes when the name is free. */
  removed: (run: string, atMs: number) => `removed/${run}/${pad(atMs, 15)}.json`,
  allRemoved: (run: string) => `removed/${run}/`,
  /** It has failed and is no longer at work. */
  givenUp: (run: string, number: number) => `removals/${run}/given-up/${pad(number, 6)}.json`,
}

/** Bytes by their hash, so that equal files of any policies are one. */
export const blobKey = (sha256: string): string => `blobs/sha256/${sha256}`

/** Evaluations that repeat, in the order of their beginnings. */
export const nightKeys = {
  all: 'nights/',
  series: (series: string) => `nights/${series}/`,
  /** Keys of nights that began at an ISO time or later are not before it. */
  from: (series: string, at: string) => `nights/${series}/${at.replaceAll(/[-:]/g, '')}`,
  night: ({ series, at, run, name }: { series: string; at: string; run: string; name: string }) =>
    `nights/${series}/${at.replaceAll(/[-:]/g, '')}/${run}/${name}.json`,
  runOf: (key: string) => key.split('/')[3],
}

/** Alarms that were raised: each is claimed once by its id, and once more when a receiver took it or it was given up. */
export const alarmKeys = {
  all: 'alarms/raised/',
  alarm: (id: string) => `alarms/raised/${id}.json`,
  idOf: (key: string) => key.slice('alarms/raised/'.length, -'.json'.length),
  sent: (id: string) => `alarms/sent/${id}.json`,
  allSent: 'alarms/sent/',
  sentIdOf: (key: string) => key.slice('alarms/sent/'.length, -'.json'.length),
  /** What a schedule had skipped when it was first seen. */
  firstCounts: (schedule: string) => `alarms/schedules/${schedule}.json`,
  /** When this store was first watched: earlier facts raise no alarm. */
  since: 'alarms/since.json',
}

/** Training jobs that may run, with those who have them: files for the workers that share the jobs' files. */
export const trainerJobKeys = { all: 'training-jobs' }

export const recipeKeys = {
  /** A recipe that was pushed under a name. */
  pushed: (name: string) => `recipes/${name}.json`,
  allPushed: 'recipes/',
  nameOf: (key: string) => key.slice('recipes/'.length, -'.json'.length),
}

export const episodeKeys = {
  /** Of a run, of a stage of it, of an iteration: what the keys of its episodes begin with. */
  ofRun: (run: string) => `episodes/${run}/`,
  ofStage: (run: string, stage: string) => `episodes/${run}/${stage}/`,
  ofIteration: ({ run, stage, iteration }: Coordinates) => `episodes/${run}/${stage}/${pad(iteration, 4)}/`,
  spec: (episode: string) => `episodes/${episode}/spec.json`,
  action: (episode: string, turn: number) => `episodes/${episode}/turns/${pad(turn, 4)}.action.json`,
  observation: (episode: string, turn: number) => `episodes/${episode}/turns/${pad(turn, 4)}.observation.json`,
  /** Hash of the world after a turn. */
  tree: (episode: string, turn: number) => `episodes/${episode}/turns/${pad(turn, 4)}.tree.json`,
  start: (episode: string) => `episodes/${episode}/turns/start.json`,
  /** Written before a placement's container is created: which host took it, and that earlier placements are over. */
  placement: (episode: string, placement: number) => `episodes/${episode}/placements/${pad(placement, 2)}.json`,
  placements: (episode: string) => `episodes/${episode}/placements/`,
  disposition: (episode: string) => `episodes/${episode}/disposition.json`,
  patch: (episode: string) => `episodes/${episode}/patch.diff`,
  capture: (episode: string) => `episodes/${episode}/capture.json`,
  verdict: (episode: string) => `episodes/${episode}/verdict.json`,
  grading: (episode: string, profile: string, file: string) => `episodes/${episode}/grading/${profile}/${file}`,
  /** One for each attempt at grading: which host it was made on, and what kept it from a verdict. */
  gradingAttempt: (episode: string, attempt: number) => `episodes/${episode}/grading/attempt-${pad(attempt, 2)}.json`,
  result: (episode: string) => `episodes/${episode}/result.json`,
}

export const suiteKeys = {
  manifest: (hash: string) => `suites/${hash}/manifest.json`,
  /** Data set, revision, files and filters in short; absent for suites of earlier versions. */
  origin: (hash: string) => `suites/${hash}/origin.json`,
  /** Of a published data set: revision, files, filters with their counts, refused rows. */
  imported: (hash: string) => `suites/${hash}/import.json`,
  /** A row as published. */
  row: (hash: string, taskId: string) => `suites/${hash}/rows/${taskId}.json`,
  /** Which suite an import made, so that the data set is read once. */
  madeBy: (importHash: string) => `suites/imports/${importHash}.json`,
  task: (hash: string, taskId: string) => `suites/${hash}/tasks/${taskId}.json`,
  /** Hashes of the files that a row names by their address, whichever suite the row is in. */
  pinnedFiles: (taskId: string, rowHash: string) => `suites/pinned-files/${taskId}/${rowHash}.json`,
}

export const gateKeys = {
  /** One grading. `identity` stands for row, image, profile, limits and version of the gate: any change gates anew. */
  grading: (taskId: string, identity: string, check: string, repeat: number) =>
    `gates/${taskId}/${identity}/${check}-${pad(repeat, 2)}.json`,
  /** Each attempt keeps a log of its own: logs hold times, so two of them never agree. */
  log: (taskId: string, identity: string, attempt: string) => `gates/${taskId}/${identity}/logs/${attempt}.log`,
  /** What was found in an image. */
  image: (identity: string) => `gates/images/${identity}.json`,
  /** The gate of one task in one run. */
  task: (run: string, suite: string, taskId: string) => `runs/${run}/gates/${suite}/tasks/${taskId}.json`,
  /** Which tasks of a suite a run may play. */
  gated: (run: string, suite: string) => `runs/${run}/gates/${suite}/gated.json`,
  report: (run: string, suite: string, file: string) => `runs/${run}/gates/${suite}/${file}`,
}

export const predictionKeys = {
  set: (hash: string) => `predictions/${hash}.json`,
  /** By content, so that equal patches of any files are one. */
  patch: (sha256: string) => `predictions/patches/${sha256}.diff`,
}

/** What identifies the grading of one patch: run, profile and patch, never an attempt. */
export interface GradingIdentity {
  run: string
  taskId: string
  profile: string
  episode: string | null
  patchSha256: string
}

export const gradingKeys = {
  plan: (run: string) => `runs/${run}/grading/plan.json`,
  result: (run: string) => `runs/${run}/grading/result.json`,
  /** An episode's patch is graded anew beside its first grading, which stays. */
  file: ({ run, taskId, profile, episode, patchSha256 }: GradingIdentity, file: string) => {
    const patch = patchSha256.slice(0, 16)
    return episode === null
      ? `runs/${run}/grading/${profile}/${taskId}/${patch}/${file}`
      : `${againFolder({ run, profile, episode })}${patch}/${file}`
  },
  /** Folder of what a run found when it graded an episode's patch again. */
  again: againFolder,
}

function againFolder({ run, profile, episode }: { run: string; profile: string; episode: string }): string {
  return `episodes/${episode}/grading/${profile}/again/${run}/`
}

export const policyKeys = {
  directory: (version: string) => `policies/${version}`,
  checkpoint: (version: string) => `checkpoints/${version}`,
  /** In a bucket: which blobs the files of both are made of. */
  weights: (version: string) => `weights/${version}.json`,
  /** The published reference. */
  ref: (version: string) => `policies/${version}.json`,
  /** What a trained policy was made from. */
  lineage: (version: string) => `lineage/${version}.json`,
  /** Directory with log-probabilities beyond the native window, of a policy that has none in its own. */
  window: (version: string) => `windows/${version}/made`,
  /** Files of the job that makes it. */
  windowJob: (version: string) => `windows/${version}/job`,
  promotion: (number: number) => `promotions/${pad(number, 6)}.json`,
  promotions: 'promotions/',
}
