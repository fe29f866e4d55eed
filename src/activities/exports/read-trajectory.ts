import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, CaptureRecord, EpisodeStart, ObservationRecord } from '../../contracts/episodes.types.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { ChatMessage } from '../../contracts/policy.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { createSlots } from '../../platform/limiter.ts'
import type { EpisodeFacts } from '../../report/exports/episode-columns.ts'
import type { ExportedTrajectory, ExportedTurn } from '../../report/exports/trajectory.ts'
import { firstMessage } from '../../scaffold/observation.ts'
import { systemPrompt } from '../../scaffold/observation.ts'
import { isProfile, scaffoldProfile } from '../../scaffold/profiles.ts'
import { nullIfGone } from './read-episode-facts.ts'
import { readUnlessCorrupt, type TaskReader } from '../runtime/stored-records.ts'

/** Number of turns of an episode that are read concurrently. */
const READS = 32

export interface TrajectoryReader {
  store: ArtifactStore
  readTask: TaskReader
}

/** Returns null if a turn's record is corrupt or missing, because a trajectory must be complete. */
export async function readTrajectory(
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
