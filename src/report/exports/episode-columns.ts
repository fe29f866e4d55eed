/**
 * The columns of an episode in CSV and Parquet: one table of names, order, types and values. Users' scripts rely on the names: append new
 * columns and rename none. `docs/exports.md` lists them.
 */
import type {
  EpisodeRecord,
  EpisodeSpec,
  EpisodeStart,
  VerdictRecord,
  VerdictSuite,
} from '../../contracts/episodes.types.ts'
import type { ScalarType } from '../../contracts/exports.types.ts'
import type { HackSign } from '../../contracts/hack-signs.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import { isValidEpisode } from '../../domain/ledger/episode-fates.ts'
import type { LedgerEntry } from '../../domain/ledger/ledger.ts'
import { paymentOf, unpaidOf } from '../../domain/rewards/payment.ts'
import { type RewardRule, rewardOf } from '../../domain/rewards/rewards.ts'
import type { UnauditedRewards } from '../../contracts/recipe.types.ts'
import { showHidden } from '../../domain/hostile-text.ts'

export const EPISODE_SCHEMA = 'longhaul.episodes/1'

/** What the records say about one episode. Absent records are null. */
export interface EpisodeFacts {
  run: string
  stage: string
  iteration: number
  taskId: string
  index: number
  episode: string
  /** `unreadable`: a record of the episode is corrupt. */
  state: 'finished' | 'unfinished' | 'unreadable'
  record: EpisodeRecord | null
  spec: EpisodeSpec | null
  start: EpisodeStart | null
  verdict: VerdictRecord | null
  /** Time of the last turn's observation, Unix ms. */
  lastObservedAtMs: number | null
  /** From the iteration's stored ledger; null if that is not written yet. */
  entry: LedgerEntry | null
  suite: string | null
  /** Data set of the suite, and what pins it. */
  dataset: VerdictSuite | null
  task: { repo: string; rowHash: string } | null
  /** SHA-256 of the policy's MANIFEST.json. */
  policyManifest: string | null
  recipeHash: string | null
  /** Reward rule of the stage; null for stages without rewards. */
  rewardRule: RewardRule | null
  unaudited: UnauditedRewards
}

type ColumnType = Exclude<ScalarType, 'int32' | 'float32'>
type ColumnValue = string | number | boolean | null

export interface EpisodeColumn {
  name: string
  type: ColumnType
  /** One line for the documentation. */
  says: string
  of(facts: EpisodeFacts): ColumnValue
}

type Maybe = ColumnValue | undefined
type MakeColumn<Of> = (name: string, type: ColumnType, says: string, read: (of: Of) => Maybe) => EpisodeColumn

const ofFacts: MakeColumn<EpisodeFacts> = (name, type, says, read) => {
  return { name, type, says, of: (facts) => read(facts) ?? null }
}
const ofRecord: MakeColumn<EpisodeRecord> = (name, type, says, read) =>
  ofFacts(name, type, says, ({ record }) => (record === null ? null : read(record)))
const ofVerdict: MakeColumn<VerdictRecord> = (name, type, says, read) =>
  ofFacts(name, type, says, ({ verdict }) => (verdict === null ? null : read(verdict)))
const ofEntry: MakeColumn<LedgerEntry> = (name, type, says, read) =>
  ofFacts(name, type, says, ({ entry }) => (entry === null ? null : read(entry)))

export const EPISODE_COLUMNS: readonly EpisodeColumn[] = [
  // Identity
  ofFacts('run', 'text', 'name of the run', ({ run }) => run),
  ofFacts('stage', 'text', '`rft`, a reinforce stage, or `eval-` and an evaluation', ({ stage }) => stage),
  ofFacts('purpose', 'text', '`rft`, `reinforce` or `evaluation`', ({ stage }) => purposeOf(stage).kind),
  ofFacts('iteration', 'integer', 'of the stage; 0 in evaluations', ({ iteration }) => iteration),
  ofFacts('task_id', 'text', 'the data set’s instance id', ({ taskId }) => taskId),
  ofFacts('repo', 'text', 'repository of the task', ({ task }) => task?.repo),
  ofFacts(
    'attempt',
    'integer',
    'index of the attempt in its group, from 0; replacements take the next',
    ({ index }) => index,
  ),
  ofFacts('episode', 'text', 'id of the episode, unique in the store', ({ episode }) => episode),
  // Ending
  ofFacts('status', 'text', '`finished`, `unfinished` or `unreadable`', ({ state }) => state),
  ofRecord('disposition', 'text', 'how it ended', ({ disposition }) => disposition),
  ofRecord('failure', 'text', 'failure code, if there is one', ({ failure }) => failure),
  ofRecord('verdict', 'text', '`resolved`, `unresolved`, `could-not-grade`', ({ verdict }) => verdict),
  ofRecord('verdict_reason', 'text', 'beside the verdict, such as `empty-patch`', (one) => one.verdictReason),
  ofRecord('suspected_hack', 'boolean', 'a sign that voids the success', (one) => one.suspectedHack ?? false),
  ofRecord('signs', 'text', 'signs of hacks, separated by blanks', ({ signs }) =>
    (signs as HackSign[] | undefined)?.join(' '),
  ),
  ofRecord('audit', 'text', '`agrees`, `void`, `unsupported`', ({ audit }) => audit?.outcome),
  ofRecord('audit_reasons', 'text', 'why it is void', ({ audit }) => audit?.reasons.join(' ')),
  // Reward
  ofFacts('outcome_official', 'integer', '1 = resolved; empty if there is no outcome', officialOutcome),
  ofFacts('outcome_audited', 'integer', '1 = resolved and paid; empty if there is no outcome', auditedOutcome),
  ofFacts('unpaid_because', 'text', 'why a resolved episode is not paid', unpaidBecause),
  ofFacts('reward', 'number', 'by the stage’s rule; empty outside reinforce stages', shapedReward),
  ofEntry('fate', 'text', 'in the ledger: `trained`, `dropped`, `excluded`, `evaluated`', ({ fate }) => fate),
  ofEntry('fate_because', 'text', 'why it was dropped or excluded', (one) => ('because' in one ? one.because : null)),
  ofEntry('batch', 'text', 'key of the batch that it trained in', (one) => ('batch' in one ? one.batch : null)),
  // Effort
  ofRecord('turns', 'integer', 'actions, format errors included', ({ turns }) => turns),
  ofRecord('format_error_turns', 'integer', 'turns without exactly one command', (one) => one.formatErrorTurns),
  ofRecord('sampled_tokens', 'integer', 'empty if the endpoint reported no count', (one) => one.sampledTokens),
  ofRecord('prompt_tokens', 'integer', 'read over all samples, cached ones too', ({ usage }) => usage?.promptTokens),
  ofRecord('cached_tokens', 'integer', 'of these, from a cache', ({ usage }) => usage?.cachedTokens),
  ofRecord('completion_tokens', 'integer', 'written, hidden reasoning too', ({ usage }) => usage?.completionTokens),
  ofRecord('context_tokens', 'integer', 'length of the context at the end', ({ contextTokens }) => contextTokens),
  ofRecord('patch_bytes', 'integer', 'of the submission', ({ patchBytes }) => patchBytes),
  ofFacts('started_at', 'time', 'first prompt, UTC', ({ start }) => start?.startedAtMs),
  ofFacts('wall_seconds', 'number', 'first prompt to last observation', wallSeconds),
  ofVerdict('grade_seconds', 'number', 'wall time of grading', ({ gradeMs }) => gradeMs / 1000),
  // Grading
  ofVerdict('grading_profile', 'text', 'harness that is imitated', ({ profile }) => profile),
  ofVerdict('graded_from', 'text', '`container`, or `gate` for empty patches', ({ from }) => from),
  ofVerdict('fail_to_pass_passed', 'integer', 'listed tests', ({ failToPass }) => failToPass.passed),
  ofVerdict('fail_to_pass_total', 'integer', 'listed tests', ({ failToPass }) => failToPass.total),
  ofVerdict('pass_to_pass_passed', 'integer', 'listed tests', ({ passToPass }) => passToPass.passed),
  ofVerdict('pass_to_pass_total', 'integer', 'listed tests', ({ passToPass }) => passToPass.total),
  // Versions and hashes
  ofFacts('policy', 'text', 'version of the policy', ({ record, spec }) => record?.policy ?? spec?.policy),
  ofFacts('scaffold', 'text', 'prompts and tools', ({ spec }) => spec?.scaffold),
  ofFacts('policy_sha256', 'text', 'of the policy’s MANIFEST.json', ({ policyManifest }) => policyManifest),
  ofFacts('recipe_sha256', 'text', 'of the resolved recipe', ({ recipeHash }) => recipeHash),
  ofFacts('suite_sha256', 'text', 'of the suite', ({ suite }) => suite),
  ofFacts('dataset', 'text', 'data set of the task', ({ dataset }) => dataset?.dataset),
  ofFacts('dataset_revision', 'text', 'what pins the data set', ({ dataset }) => dataset?.revision),
  ofFacts('task_sha256', 'text', 'of the task’s row', ({ task }) => task?.rowHash),
  ofVerdict('image', 'text', 'image of the grading, with its digest', ({ image }) => image),
  ofVerdict('patch_sha256', 'text', 'of the submission', ({ patchSha256 }) => patchSha256),
  ofVerdict('log_sha256', 'text', 'of the tests’ log', ({ provenance }) => provenance?.logSha256),
]

export function episodeRow(facts: EpisodeFacts): ColumnValue[] {
  return EPISODE_COLUMNS.map(({ of }) => of(facts))
}

/** The values by column name, for JSON; times are ISO texts in UTC. */
export function episodeObject(facts: EpisodeFacts): Record<string, ColumnValue> {
  return Object.fromEntries(
    EPISODE_COLUMNS.map(({ name, type, of }) => {
      const value = of(facts)
      return [name, type === 'time' && value !== null ? new Date(Number(value)).toISOString() : value]
    }),
  )
}

function officialOutcome({ record }: EpisodeFacts): ColumnValue {
  if (record === null || !isValidEpisode(record)) return null
  return record.verdict === 'resolved' ? 1 : 0
}

function auditedOutcome({ record, unaudited }: EpisodeFacts): ColumnValue {
  if (record === null || !isValidEpisode(record)) return null
  return paymentOf(record, unaudited) === 'paid' ? 1 : 0
}

function unpaidBecause({ record, unaudited }: EpisodeFacts): ColumnValue {
  return record === null || !isValidEpisode(record) ? null : unpaidOf(record, unaudited)
}

function shapedReward({ record, rewardRule }: EpisodeFacts): ColumnValue {
  if (record === null || rewardRule === null || !isValidEpisode(record)) return null
  return rewardOf({ ...record, rule: rewardRule }).reward
}

function wallSeconds({ start, lastObservedAtMs }: EpisodeFacts): ColumnValue {
  return start === null || lastObservedAtMs === null ? null : (lastObservedAtMs - start.startedAtMs) / 1000
}

// CSV by RFC 4180: UTF-8 without a byte order mark, CRLF, doubled quotes. Spreadsheets do not run its texts as formulas.

export interface CsvColumn {
  name: string
  type: ColumnType
}

export function csvHeader(columns: readonly CsvColumn[]): string {
  return csvLine(columns.map(({ name }) => name))
}

export function csvRow(columns: readonly CsvColumn[], values: readonly ColumnValue[]): string {
  return csvLine(values.map((value, at) => csvCell(value, columns[at]?.type ?? 'text')))
}

function csvLine(cells: readonly string[]): string {
  return `${cells.join(',')}\r\n`
}

/** A spreadsheet takes such a text for a formula, or drops its leading apostrophe. */
const FORMULA = /^(?:\s*[=+\-@＝＋－＠']|[\t\n])/

/** Null is an empty cell. */
export function csvCell(value: ColumnValue, type: ColumnType): string {
  if (value === null) return ''
  if (type === 'time') return new Date(Number(value)).toISOString()
  if (typeof value !== 'string') return String(value)
  const shown = showHidden(value)
  const text = FORMULA.test(shown) ? `'${shown}` : shown
  return /[",;\s]|^$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
