/** Reads the page of an episode, finished, running or lost, from its records. */
import { AUDIT_REASONS } from '../contracts/audit.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type {
  ActionRecord,
  CaptureRecord,
  EpisodeRecord,
  EpisodeSpec,
  EpisodeStart,
  GradingAttemptRecord,
  ObservationRecord,
  PlacementRecord,
  VerdictRecord,
} from '../contracts/episodes.types.ts'
import { HACK_SIGNS } from '../contracts/hack-signs.ts'
import { episodeKeys, runKeys } from '../contracts/keys.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { isValidEpisode } from '../domain/ledger/episode-fates.ts'
import { rewardOf, stageRewardRule } from '../domain/rewards/rewards.ts'
import { readPlacements } from '../activities/episode/claim-placement.ts'
import { readUnlessCorrupt, type TaskReader } from '../activities/runtime/stored-records.ts'
import { readLogOf } from '../adapters/artifacts/stored-log.ts'
import { createSlots } from '../platform/limiter.ts'
import type {
  EpisodePage,
  EpisodeRow,
  Moment,
  ShownText,
  TestView,
  TurnPage,
  TurnsPage,
  TurnView,
  VerdictView,
} from './pages.types.ts'
import { turnLine, turnsOfPart } from './shared/turn-parts.ts'
import { parse } from '../adapters/parsing/parser-pool.ts'
import { withoutTiming } from '../grading/test-names.ts'
import type { StoredRecipe } from '../contracts/run-records.types.ts'

/** Characters of one text in a part of the turns; the turn's own page has all of it. */
export const SHOWN_CHARS = 8_192
/** Characters of a statement, a patch or a log, which have no page of their own. */
const SHOWN_FILE_CHARS = 1_000_000
const READS = 32

export interface EpisodeReader {
  store: ArtifactStore
  readTask: TaskReader
}

/** Everything but what other episodes and batches contain. */
export async function readEpisodePage(
  { store, readTask }: EpisodeReader,
  row: EpisodeRow,
): Promise<Omit<EpisodePage, 'siblings' | 'hasTokens'>> {
  const { episode } = row
  const read = <T extends object>(key: string): Promise<T | null> => readUnlessCorrupt<T>(store, key)
  const [spec, start, record, verdict, turns, placements, attempts, patch] = await Promise.all([
    read<EpisodeSpec>(episodeKeys.spec(episode)),
    read<EpisodeStart>(episodeKeys.start(episode)),
    read<EpisodeRecord>(episodeKeys.result(episode)),
    read<VerdictRecord>(episodeKeys.verdict(episode)),
    readTurns(store, episode),
    readPlacements(store, episode),
    readGradingAttempts(store, episode),
    store.read(episodeKeys.patch(episode)),
  ])
  const task = spec === null ? null : await taskOf(readTask, spec)
  const graded = await readGraded(store, { episode, verdict, task })
  const capture = await read<CaptureRecord>(episodeKeys.capture(episode))
  return {
    kind: 'episode',
    row,
    policy: record?.policy ?? spec?.policy ?? null,
    repo: task?.repo ?? null,
    statement: task === null ? null : cut(task.statement, SHOWN_FILE_CHARS),
    startedAtMs: start?.startedAtMs ?? null,
    turns: turns.map(turnLine),
    moments: momentsOf(placements, attempts),
    patch: patch === null || capture === null ? null : cut(decode(patch), SHOWN_FILE_CHARS),
    verdict: verdict === null ? null : showVerdict(verdict),
    ...graded,
    reward: record === null ? null : await rewardParts(store, record),
    signs: row.signs.map((sign) => ({ sign, ...HACK_SIGNS[sign] })),
  }
}

/** The full texts of one turn; null if there is no such turn. */
export async function readTurnPage(store: ArtifactStore, episode: string, turn: number): Promise<TurnPage | null> {
  const { action, observation } = await readTurnRecords(store, episode, turn)
  if (action === null) return null
  const { text: reply, command } = action
  return { kind: 'turn', episode, turn, reply, command, observation: observation?.text ?? null }
}

/** Turns of one part with their texts, as far as they are stored. */
export async function readTurnsPage(store: ArtifactStore, episode: string, part: number): Promise<TurnsPage> {
  return { kind: 'turns', episode, part, turns: await readTurnsOf(store, episode, turnsOfPart(part)) }
}

/** Null if the turn's action is not stored (yet). */
export async function readTurn(store: ArtifactStore, episode: string, turn: number): Promise<TurnView | null> {
  const { action, observation } = await readTurnRecords(store, episode, turn)
  return action === null ? null : showTurn(action, observation)
}

async function readTurnRecords(
  store: ArtifactStore,
  episode: string,
  turn: number,
): Promise<{ action: ActionRecord | null; observation: ObservationRecord | null }> {
  const [action, observation] = await Promise.all([
    readUnlessCorrupt<ActionRecord>(store, episodeKeys.action(episode, turn)),
    readUnlessCorrupt<ObservationRecord>(store, episodeKeys.observation(episode, turn)),
  ])
  return { action, observation }
}

async function readTurns(store: ArtifactStore, episode: string): Promise<TurnView[]> {
  const keys = await store.list(`episodes/${episode}/turns/`)
  const numbers = keys.flatMap((key) => {
    const found = /\/(\d+)\.action\.json$/.exec(key)
    return found === null ? [] : [Number(found[1])]
  })
  return readTurnsOf(store, episode, numbers)
}

async function readTurnsOf(store: ArtifactStore, episode: string, numbers: readonly number[]): Promise<TurnView[]> {
  const slots = createSlots(READS)
  const turns = await Promise.all(numbers.map((turn) => slots.use(() => readTurn(store, episode, turn))))
  return turns.filter((turn) => turn !== null)
}

function showTurn(action: ActionRecord, observation: ObservationRecord | null): TurnView {
  const { turn, text, command, formatError, finishReason, policy, ids, chat, sampledAtMs, sampleMs } = action
  return {
    turn,
    reply: cut(text),
    command: command === null ? null : cut(command),
    formatError,
    finishReason: chat?.ending ?? finishReason,
    policy,
    sampledTokens: chat?.usage?.completionTokens ?? ids.length,
    sampledAtMs,
    sampleMs,
    observation:
      observation === null
        ? null
        : {
            text: cut(observation.text),
            execution: observation.execution,
            cwd: observation.state.cwd,
            openFile: observation.state.openFile,
            observedAtMs: observation.observedAtMs,
          },
  }
}

export function cut(text: string, chars = SHOWN_CHARS): ShownText {
  if (text.length <= chars) return { text, chars: text.length }
  const last = text.charCodeAt(chars - 1)
  // Never splits a surrogate pair.
  const end = last >= 0xd800 && last <= 0xdbff ? chars - 1 : chars
  return { text: text.slice(0, end), chars: text.length }
}

async function taskOf(readTask: TaskReader, { suiteHash, taskId }: EpisodeSpec): Promise<Task | null> {
  try {
    return await readTask({ suite: suiteHash, taskId })
  } catch {
    // Without its suite an episode lacks its statement, but keeps its trajectory.
    return null
  }
}

async function readGradingAttempts(store: ArtifactStore, episode: string): Promise<GradingAttemptRecord[]> {
  const keys = (await store.list(`episodes/${episode}/grading/`)).filter((key) => /\/attempt-\d+\.json$/.test(key))
  const records = await Promise.all(keys.map((key) => readUnlessCorrupt<GradingAttemptRecord>(store, key)))
  return records.filter((record) => record !== null)
}

function momentsOf(placements: readonly PlacementRecord[], attempts: readonly GradingAttemptRecord[]): Moment[] {
  const placed = placements.map(({ placement, placedAtMs, hostId }): Moment => {
    const note =
      placement === 1 ? `placed on ${hostId}` : `placed again (${placement}) on ${hostId}, its turns replayed`
    return { what: 'placement', atMs: placedAtMs, note }
  })
  const graded = attempts.map(({ attempt, failure, message, atMs }): Moment => {
    return { what: 'grading-attempt', atMs, note: `attempt ${attempt}: ${failure}: ${message}` }
  })
  return [...placed, ...graded]
}

async function readGraded(
  store: ArtifactStore,
  { episode, verdict, task }: { episode: string; verdict: VerdictRecord | null; task: Task | null },
): Promise<{ tests: TestView[]; log: ShownText | null }> {
  if (verdict === null) return { tests: [], log: null }
  const key = episodeKeys.grading(episode, verdict.profile, 'test_output.txt')
  const bytes = await readLogOf(store, key, verdict.provenance?.logSha256).catch(() => null)
  const log = bytes === null ? null : cut(decode(bytes), SHOWN_FILE_CHARS)
  if (task === null) return { tests: [], log }
  const statuses = bytes === null ? null : await gradeStoredLog(task, bytes)
  return { tests: gatedTests(task, statuses), log }
}

function showVerdict(record: VerdictRecord): VerdictView {
  const { kind, reason, profile, from, failToPass, passToPass, gradeMs, image, audit } = record
  const reasons = (audit?.reasons ?? []).map((reason) => ({ reason, says: AUDIT_REASONS[reason] }))
  const shown = audit === undefined ? null : { outcome: audit.outcome, reasons, detail: audit.detail }
  return { kind, reason, profile, from, failToPass, passToPass, gradeMs, image, audit: shown }
}

/** By the stage's own rule, as in its batch. */
async function rewardParts(store: ArtifactStore, record: EpisodeRecord): Promise<EpisodePage['reward']> {
  const stored = await store.readRecord<StoredRecipe>(runKeys.recipe(record.run))
  const rule = stored === null ? null : stageRewardRule(stored.recipe, record.stage)
  if (rule === null || !isValidEpisode(record)) return null
  const { verdict, disposition } = record
  if (verdict !== 'resolved' && verdict !== 'unresolved') return null
  const { reward, components } = rewardOf({ ...record, rule, verdict, disposition })
  return { reward, parts: components.map(({ name, value }) => ({ name, value })) }
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

/** Lists of ten thousand tests exist; a page shows at most this many. */
const MOST_TESTS = 20_000

/** Statuses by test, from the log; null if no parser can read it. Parses in a thread, since a log is hostile text. */
async function gradeStoredLog(task: Task, log: Uint8Array): Promise<ReadonlyMap<string, string> | null> {
  const { gradingProfile: profile, installConfig } = task
  try {
    const graded = await parse('gradeNamedLog', { profile, parser: installConfig.logParser, log, tests: null })
    return graded.kind === 'graded' ? graded.statuses : null
  } catch {
    return null
  }
}

/** The listed tests of an episode: their state before the patch, as the gate found it, and after it, from the grading's log. */
function gatedTests(
  { failToPass, passToPass }: Pick<Task, 'failToPass' | 'passToPass'>,
  statuses: ReadonlyMap<string, string> | null,
): TestView[] {
  const after = (name: string): string | null =>
    statuses === null ? null : (statuses.get(name) ?? statuses.get(withoutTiming(name)) ?? 'not in the log')
  const views = (names: readonly string[], list: TestView['list']): TestView[] =>
    names.map((name) => ({
      name,
      list,
      before: list === 'FAIL_TO_PASS' ? 'fails' : 'passes',
      after: after(name),
    }))
  return [...views(failToPass, 'FAIL_TO_PASS'), ...views(passToPass, 'PASS_TO_PASS')].slice(0, MOST_TESTS)
}
