/** Exports trajectories as directories of files. */
import { writeParquet } from '../../adapters/exports/parquet-file.ts'
import { type ExportDirectory, writeExportDirectory } from '../../adapters/exports/write-export.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TableValue } from '../../contracts/exports.types.ts'
import { episodeKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import { ATIF_VERSION, toAtif } from '../../report/exports/atif.ts'
import {
  DATASET_SPLITS,
  type DatasetSplit,
  type DatasetTally,
  addToTally,
  createTally,
  renderDatasetCard,
} from '../../report/exports/dataset-card.ts'
import {
  type ExportedTrajectory,
  type ExportedTurn,
  TRAJECTORY_COLUMNS,
  wellFormedJson,
} from '../../report/exports/trajectory.ts'
import { type TaskReader, cachedRecords, createTaskReader, readUnlessCorrupt } from '../runtime/stored-records.ts'
import { type ExportSubject, findExportSubject } from './export-subject.ts'
import {
  type EpisodeCounts,
  type ExportRunInput,
  type ExportSummary,
  requireSome,
  summaryHead,
} from './export-summary.ts'
import { nullIfGone, readEpisodeFacts } from './read-episode-facts.ts'
import type { ChatMessage } from '../../contracts/policy.types.ts'
import { type EpisodeFacts, episodeRow } from '../../report/exports/episode-columns.ts'
import { createDefuse } from '../../scaffold/render.ts'
import type { StoredRecipe } from '../../contracts/run-records.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, CaptureRecord, EpisodeStart, ObservationRecord } from '../../contracts/episodes.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { createSlots } from '../../platform/limiter.ts'
import { firstMessage, systemPrompt } from '../../scaffold/observation.ts'
import { isProfile, scaffoldProfile } from '../../scaffold/profiles.ts'

/** Number of cached rows. Rows contain their tests, and siblings follow each other, so few are enough. */
const ROWS_KEPT = 16

/** Writes Harbor's interchange format: one document for each finished episode, at the path of its key. */
export async function exportAtif(input: ExportRunInput): Promise<ExportSummary> {
  const { store, place } = input
  const subject = await findExportSubject(store, input.subject)
  const episodes: EpisodeCounts = { finished: 0, unfinished: 0, unreadable: 0 }
  const written = await writeExportDirectory(place, async (directory) => {
    for await (const trajectory of trajectoriesOf(input, subject, episodes)) {
      const path = trajectory.facts.episode.slice(subject.run.length + 1)
      const text = wellFormedJson(toAtif(trajectory), 1)
      await directory.write(`${path}/trajectory.json`, (sink) => sink.write(`${text}\n`))
    }
    requireSome(subject, episodes, 'finished episodes')
    return markOf(subject, { format: 'atif', version: ATIF_VERSION, episodes })
  })
  return { ...summaryHead(subject, input, written), files: written.files, episodes }
}

/** Episodes per file, because readers and hubs handle files of many gigabytes badly. */
const EPISODES_OF_A_SHARD = 1_000

/** Writes a data set for the Hugging Face hub: rows of finished episodes, and a card. */
export async function exportTrajectories(input: ExportRunInput): Promise<ExportSummary> {
  const { store, place, license = null } = input
  requireLicense(license)
  const subject = await findExportSubject(store, input.subject)
  const episodes: EpisodeCounts = { finished: 0, unfinished: 0, unreadable: 0 }
  const tally = createTally()
  const stored = await readUnlessCorrupt<StoredRecipe>(store, runKeys.recipe(subject.run))
  const written = await writeExportDirectory(place, async (directory) => {
    for (const split of DATASET_SPLITS) {
      const stages = subject.stages.filter((stage) => splitOf(stage) === split)
      await writeShards(directory, split, datasetRows(input, { ...subject, stages }, { split, tally, episodes }))
    }
    requireSome(subject, episodes, 'finished episodes')
    const card = renderDatasetCard({
      ...subject,
      recipeHash: stored?.hash ?? null,
      license,
      tally,
      leftOut: { unfinished: episodes.unfinished, unreadable: episodes.unreadable },
    })
    await directory.write('README.md', (sink) => sink.write(card))
    return markOf(subject, { format: 'trajectories', episodes })
  })
  return { ...summaryHead(subject, input, written), files: written.files, episodes }
}

function splitOf(stage: string): DatasetSplit {
  return purposeOf(stage).kind === 'evaluation' ? 'evaluation' : 'train'
}

interface DatasetCounts {
  split: DatasetSplit
  tally: DatasetTally
  episodes: EpisodeCounts
}

async function* datasetRows(
  input: ExportRunInput,
  subject: ExportSubject,
  { split, tally, episodes }: DatasetCounts,
): AsyncGenerator<TableValue[]> {
  const readRow = cachedRecords<{ suite: string; taskId: string }, { row: { license_name?: unknown } }>(input.store, {
    key: ({ suite, taskId }) => suiteKeys.row(suite, taskId),
    max: ROWS_KEPT,
  })
  for await (const trajectory of trajectoriesOf(input, subject, episodes)) {
    const { suite, taskId } = trajectory.facts
    const name = suite === null ? null : (await readRow({ suite, taskId }))?.row.license_name
    const license = typeof name === 'string' && name !== '' ? name : null
    addToTally(tally, split, trajectory.facts, license)
    yield trajectoryRow(trajectory, license)
  }
}

async function writeShards(
  directory: ExportDirectory,
  split: DatasetSplit,
  rows: AsyncGenerator<TableValue[]>,
): Promise<void> {
  for (let shard = 0, next = await rows.next(); next.done !== true; shard++) {
    const file = `data/${split}-${String(shard).padStart(5, '0')}.parquet`
    const rowsOfShard = async function* (): AsyncGenerator<TableValue[]> {
      for (let taken = 0; taken < EPISODES_OF_A_SHARD && next.done !== true; taken++) {
        yield next.value
        next = await rows.next()
      }
    }
    await directory.write(file, (sink) =>
      writeParquet(sink, { columns: TRAJECTORY_COLUMNS, rows: rowsOfShard(), metadata: {} }),
    )
  }
}

function requireLicense(license: string | null): void {
  if (license === null || /^[a-z0-9][a-z0-9.+-]{0,60}$/.test(license)) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected --license to be a word of the hub, such as mit, apache-2.0, cc-by-4.0 or other, got ${JSON.stringify(license)}`,
  })
}

/** Yields finished episodes, one at a time. `counts` records all episodes. */
async function* trajectoriesOf(
  { store, signal }: ExportRunInput,
  subject: ExportSubject,
  counts: EpisodeCounts,
): AsyncGenerator<ExportedTrajectory> {
  const readTask = createTaskReader(store)
  for await (const facts of readEpisodeFacts({ store, subject, ...(signal === undefined ? {} : { signal }) })) {
    signal?.throwIfAborted()
    const trajectory = facts.state === 'finished' ? await readTrajectory({ store, readTask }, facts) : null
    counts[facts.state === 'finished' && trajectory === null ? 'unreadable' : facts.state] += 1
    if (trajectory !== null) yield trajectory
  }
}

/** Content of `export.json`. */
function markOf({ run, stages }: ExportSubject, more: object): object {
  return { schema: 'longhaul.export/1', run, stages, ...more }
}

// Readers put these texts into chat templates, so text from the environment must not be able to end a message there.
const defuse = createDefuse()

/** In the order of `TRAJECTORY_COLUMNS`. */
export function trajectoryRow(trajectory: ExportedTrajectory, license: string | null): TableValue[] {
  const { facts, statement, promptSource, turns, patch } = trajectory
  return [
    ...episodeRow(facts),
    license,
    statement,
    promptSource,
    messagesOf(trajectory).map(({ role, content }) => ({ role, content })),
    turns.map(turnValue),
    patch,
  ]
}

/** The conversation in the form of a chat model. A last turn without an observation ends with the reply. */
function messagesOf({ prompt, turns }: ExportedTrajectory): ChatMessage[] {
  return [
    ...prompt.map(({ role, content }) => ({ role, content: role === 'user' ? defuse(content) : content })),
    ...turns.flatMap(({ action, observation }): ChatMessage[] => [
      { role: 'assistant', content: action.text },
      ...(observation === null ? [] : [{ role: 'user' as const, content: defuse(observation.text) }]),
    ]),
  ]
}

function turnValue({ action, observation }: ExportedTurn): TableValue {
  const { turn, policy, command, formatError, finishReason, chat, sampleMs, promptDelta, ids, logprobs } = action
  const execution = observation?.execution ?? null
  return {
    turn,
    policy,
    command,
    format_error: formatError,
    finish_reason: chat?.ending ?? finishReason,
    sample_seconds: sampleMs / 1000,
    exit_code: execution?.exitCode ?? null,
    ended_by: execution?.reason ?? null,
    wall_seconds: execution === null ? null : execution.wallMs / 1000,
    prompt_token_ids: promptDelta,
    token_ids: ids,
    logprobs,
  }
}

/** Number of turns of an episode that are read concurrently. */
const READS = 32

export interface TrajectoryReader {
  store: ArtifactStore
  readTask: TaskReader
}

/** Returns null if a turn's record is corrupt or missing, because a trajectory must be complete. */
async function readTrajectory(
  { store, readTask }: TrajectoryReader,
  facts: EpisodeFacts,
): Promise<ExportedTrajectory | null> {
  const { episode, record } = facts
  if (record === null) return null
  const slots = createSlots(READS)
  const turns = await Promise.all(
    Array.from({ length: record.turns }, (_, turn) => slots.use(() => readTurn(store, episode, turn))),
  )
  if (turns.includes(null)) return null
  const task = await taskOf(readTask, facts)
  return {
    facts,
    statement: task?.statement ?? null,
    ...promptOf(facts, task),
    turns: turns.filter((turn) => turn !== null),
    patch: await patchOf(store, episode),
  }
}

async function readTurn(store: ArtifactStore, episode: string, turn: number): Promise<ExportedTurn | null> {
  const action = await readUnlessCorrupt<ActionRecord>(store, episodeKeys.action(episode, turn))
  if (action === null) return null
  return {
    action,
    observation: await readUnlessCorrupt<ObservationRecord>(store, episodeKeys.observation(episode, turn)),
  }
}

async function taskOf(readTask: TaskReader, { suite, taskId }: EpisodeFacts): Promise<Task | null> {
  return suite === null ? null : nullIfGone(readTask({ suite, taskId }))
}

function promptOf(
  { start, spec }: EpisodeFacts,
  task: Task | null,
): Pick<ExportedTrajectory, 'prompt' | 'promptSource'> {
  if (start?.messages !== undefined) return { prompt: start.messages, promptSource: 'recorded' }
  return start === null || spec === null || task === null || !isProfile(spec.scaffold)
    ? { prompt: [], promptSource: 'unknown' }
    : { prompt: render(start, task, spec), promptSource: 'rendered' }
}

function render(
  { state }: EpisodeStart,
  { repoDir, statement }: Task,
  { scaffold, demonstration }: { scaffold: string; demonstration: boolean },
): ChatMessage[] {
  const profile = scaffoldProfile(scaffold)
  return [
    { role: 'system', content: systemPrompt({ profile, withDemonstration: demonstration }) },
    { role: 'user', content: firstMessage({ profile, state, repoDir, statement }) },
  ]
}

async function patchOf(store: ArtifactStore, episode: string): Promise<string | null> {
  const capture = await readUnlessCorrupt<CaptureRecord>(store, episodeKeys.capture(episode))
  const bytes = capture === null ? null : await store.read(episodeKeys.patch(episode))
  if (bytes === null) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
